"""The OpenAPI documents of our servers: valid by themselves, and true of answers and failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import shipped_servers as shipped
from jsonschema_rs import validator_for
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, create_model

from author_servers import server_of
from palestra.config import PACKAGE_ROOT, SERVER_TREES
from palestra.errors import (
    CallError,
    CallEvidence,
    FieldProblem,
    Hop,
    ModelError,
    RowError,
    RowIdentity,
    VerifierError,
    to_body,
)
from palestra.schema.openapi import COMPONENTS, SchemaComponents, complete_document
from palestra.server import ResourcesServer, Server

CONFIGS = shipped.configs()
LABELS = [f"{path.parents[1].name}-{path.stem}" for path in CONFIGS]


def problems(document: dict[str, Any]) -> list[str]:
    return [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()]


def document_of(server: Server) -> dict[str, Any]:
    return asyncio.run(shipped.document_of(server.asgi_app()))


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=LABELS)
def test_the_documents_of_a_shipped_config_are_valid(config: Path) -> None:
    documents = [document_of(server) for server in shipped.servers_of(config)]

    assert documents
    assert [problem for document in documents for problem in problems(document)] == []


def test_every_shipped_server_is_among_them() -> None:
    folders = {
        path.parent for tree in SERVER_TREES for path in PACKAGE_ROOT.glob(f"{tree}/*/app.py")
    }

    assert {folder.name for folder in folders} - {path.parents[1].name for path in CONFIGS} == {
        "environment_file"  # its config is made by `eval`; it is below
    }


def test_the_document_of_an_environment_in_one_file_is_valid(tmp_path: Path) -> None:
    assert problems(document_of(shipped.environment_file(tmp_path / "env.py"))) == []


def test_the_head_servers_document_is_valid() -> None:
    assert problems(asyncio.run(shipped.document_of(shipped.head()))) == []


def test_the_sandbox_services_document_is_valid() -> None:
    app = shipped.sandbox_service(shipped.unisolated_sandbox()).app()

    assert problems(asyncio.run(shipped.document_of(app))) == []


def test_schemas_of_one_name_that_differ_have_components_of_their_own() -> None:
    def body(kind: Any) -> dict[str, Any]:
        inner = create_model("Inner", value=(kind, ...))
        outer = create_model("Outer", inner=(inner, ...))
        return create_model("Body", outer=(outer, ...)).model_json_schema()

    components = SchemaComponents({})
    placed = [components.placed(body(kind)) for kind in (int, str, float, int)]

    references = [schema["properties"]["outer"]["$ref"] for schema in placed]
    assert references == [f"{COMPONENTS}Outer{suffix}" for suffix in ("", "_2", "_3", "")]
    assert components.schemas["Outer_3"]["properties"]["inner"]["$ref"] == f"{COMPONENTS}Inner_3"
    assert components.schemas["Inner_3"]["properties"]["value"]["type"] == "number"


def test_the_mapping_of_a_tagged_union_leads_into_the_components() -> None:
    schema = {
        "discriminator": {"propertyName": "kind", "mapping": {"a": "#/$defs/A"}},
        "oneOf": [{"$ref": "#/$defs/A"}],
        "$defs": {"A": {"type": "object"}},
    }

    placed = SchemaComponents({}).placed(schema)

    assert placed["discriminator"]["mapping"] == {"a": f"{COMPONENTS}A"}
    assert "$defs" not in placed


class Asked(BaseModel):
    number: int


class WithRoute(ResourcesServer):
    async def verify(self, body: Asked) -> dict[str, Any]:
        return {"reward": body.number}

    def setup_webserver(self) -> Any:
        app = super().setup_webserver()

        @app.post("/own")
        async def own(body: Asked) -> Asked:
            return body

        return app


def test_the_failures_of_an_authors_route_are_described_as_they_are_answered() -> None:
    document = document_of(server_of(WithRoute))

    responses = document["paths"]["/own"]["post"]["responses"]
    schema = responses["422"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": f"{COMPONENTS}ErrorEnvelope"}
    assert problems(document) == []


@pytest.mark.parametrize(
    "failure",
    [
        RowError("m", evidence=CallEvidence(problems=(FieldProblem("/a", "a number"),))),
        VerifierError("m", hint="h", evidence=CallEvidence(traceback="t", row=RowIdentity("a", 1))),
        ModelError("m", evidence=CallEvidence(hops=(Hop("s", "u", 500, "b"), Hop("s")))),
    ],
)
def test_every_failure_is_as_the_envelopes_schema_says(failure: CallError) -> None:
    document: dict[str, Any] = {"paths": {"/": {"get": {}}}}
    complete_document(document, {500})

    validator_for(document["components"]["schemas"]["ErrorEnvelope"]).validate(to_body(failure))
