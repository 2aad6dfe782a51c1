"""A server's OpenAPI document: every endpoint with its body, responses and failures.

The document is self-contained: all referenced schemas are in `components/schemas`. The body schema
of Palestra's own endpoints stays inline, because rows are checked against its fields.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from palestra.schema.json_types import JsonDict, JsonObject

JSON_TYPE: Final = "application/json"
COMPONENTS: Final = "#/components/schemas/"
DEFINITIONS: Final = "#/$defs/"
ENVELOPE: Final = "ErrorEnvelope"
_OF_THE_FRAMEWORK: Final = f"{COMPONENTS}HTTPValidationError"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_ENVELOPE_SCHEMA: Final[JsonDict] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "layer", "message", "hint", "retriable", "row", "hops"],
            "properties": {
                "type": _TEXT,
                "layer": _TEXT,
                "reason": _TEXT,
                "message": _TEXT,
                "hint": _TEXT,
                "retriable": {"type": "boolean"},
                "row": {
                    "type": ["object", "null"],
                    "required": ["run", "task", "rollout", "attempt", "agent"],
                    "properties": {
                        "run": _TEXT,
                        "task": {"type": ["integer", "string", "null"]},
                        "rollout": {"type": ["integer", "null"]},
                        "attempt": _WHOLE,
                        "agent": _TEXT,
                    },
                },
                "judge_question": _TEXT,
                "hops": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["server", "url", "status", "body"],
                        "properties": {
                            "server": _TEXT,
                            "url": _TEXT,
                            "status": {"type": ["integer", "null"]},
                            "body": _TEXT,
                        },
                    },
                },
                "problems": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["pointer", "expected"],
                        "properties": {"pointer": _TEXT, "expected": _TEXT},
                    },
                },
                "traceback": _TEXT,
            },
        },
        "detail": {"description": "what the framework alone would have answered"},
        "verify_request": {"description": "what a verification that failed was asked"},
    },
}
"""The JSON Schema of the error body that `palestra.errors.to_body` creates."""

FAILURES: Final[Mapping[int, str]] = {
    400: "The model's endpoint refuses the request for good",
    401: "The token is missing",
    409: "The session is in no state for this call",
    410: "It has ended, or never was",
    415: "The body is of another content type",
    421: "This is not the host",
    422: "The body does not fit",
    500: "The server, or one that it called, failed",
    503: "What does the work failed",
    504: "The deadline passed",
}
"""The HTTP statuses of failure responses, with a description of each."""


class OpenApiSchema(GenerateJsonSchema):
    """A JSON Schema generator without warnings: defaults that JSON cannot express are omitted.

    When a function selects among union members, their schemas may overlap, so a value may match
    several of them.
    """

    ignored_warning_kinds = frozenset(  # type: ignore[assignment]  # pydantic's is a plain set
        {"skipped-choice", "non-serializable-default", "skipped-discriminator"}
    )

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Return the schema of a tagged union, with `anyOf` instead of `oneOf` when no field
        selects the member.
        """
        union = super().tagged_union_schema(schema)
        if "oneOf" in union and "discriminator" not in union:
            union["anyOf"] = union.pop("oneOf")
        return union


class SchemaComponents:
    """The shared schemas of one document. Different schemas always have different names."""

    def __init__(self, document: JsonDict) -> None:
        components = document.setdefault("components", {})
        self.schemas: JsonDict = components.setdefault("schemas", {})

    def placed(self, schema: JsonObject) -> JsonDict:
        """Return `schema` with its definitions moved into these components and its references
        updated.
        """
        definitions: JsonObject = schema.get("$defs", {})
        names = {name: name for name in definitions}
        while clashing := self._clashing(definitions, names):
            # Whatever refers to one that is renamed differs now too, and is looked at again.
            for name in clashing:
                names[name] = _next(name, names[name])
        for name, definition in definitions.items():
            self.schemas[names[name]] = _referring(definition, names)
        body = {key: value for key, value in schema.items() if key != "$defs"}
        placed: JsonDict = _referring(body, names)
        return placed

    def _clashing(self, definitions: JsonObject, names: Mapping[str, str]) -> list[str]:
        """Return the definitions whose names already belong to a different schema."""
        return [
            name
            for name, definition in definitions.items()
            if names[name] in self.schemas
            and self.schemas[names[name]] != _referring(definition, names)
        ]

    def failures(self, statuses: Iterable[int]) -> JsonDict:
        """Return the responses of an operation for the failure `statuses`, with the error envelope
        as body.
        """
        self.schemas.setdefault(ENVELOPE, _ENVELOPE_SCHEMA)
        content = {JSON_TYPE: {"schema": {"$ref": COMPONENTS + ENVELOPE}}}
        return {
            str(status): {"description": FAILURES[status], "content": content}
            for status in sorted(statuses)
        }


def _next(name: str, last_taken: str) -> str:
    number = int(last_taken.removeprefix(name).removeprefix("_") or 1)
    return f"{name}_{number + 1}"


def _referring(value: Any, names: Mapping[str, str]) -> Any:
    """Return `value` with each reference to a definition in `names` changed to point to the
    components.
    """
    if isinstance(value, list):
        return [_referring(inner, names) for inner in value]
    if isinstance(value, dict):
        return {key: _referring(inner, names) for key, inner in value.items()}
    # Not only below `$ref`: the mapping of a discriminator refers as well.
    if isinstance(value, str) and value.startswith(DEFINITIONS):
        name = value.removeprefix(DEFINITIONS)
        return COMPONENTS + names[name] if name in names else value
    return value


def json_schema_of(kind: Any) -> JsonDict:
    """Return the JSON Schema of a type's values; an empty schema, which accepts everything, when
    pydantic has none.

    Fields with a default are optional, because unset fields are not sent. So this is the schema of
    a request.
    """
    try:
        schema: JsonSchemaValue = TypeAdapter(kind).json_schema(schema_generator=OpenApiSchema)
    except PydanticUserError:
        return {}
    return schema


def request_body(schema: JsonObject) -> JsonDict:
    """Return the request body of an operation. The body is optional when all its fields are."""
    return {
        "required": bool(schema.get("required")) or "$ref" in schema,
        "content": {JSON_TYPE: {"schema": dict(schema)}},
    }


def documented_answers(answers: Mapping[str, Any], components: SchemaComponents) -> dict[str, Any]:
    """Return the success response of an operation. `answers`: types by content type."""
    content = {
        media: {"schema": components.placed(json_schema_of(kind))}
        for media, kind in answers.items()
    }
    return {"description": "What it answers", "content": content}


def complete_document(document: JsonDict, statuses: Iterable[int]) -> None:
    """Add the failure responses of Palestra's error handling to every operation.

    FastAPI's own 422 response is removed, because Palestra's error handling answers instead.
    """
    components = SchemaComponents(document)
    failures = components.failures(statuses)
    for path in document.get("paths", {}).values():
        for method in _METHODS & path.keys():
            responses = path[method].setdefault("responses", {})
            unfit = responses.get("422", {}).get("content", {}).get(JSON_TYPE, {}).get("schema")
            if unfit == {"$ref": _OF_THE_FRAMEWORK}:
                del responses["422"]
            for status, response in failures.items():
                responses.setdefault(status, response)
    for name in ("HTTPValidationError", "ValidationError"):
        components.schemas.pop(name, None)
