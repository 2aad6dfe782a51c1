"""The operations of the rollout service, and the OpenAPI document that is made from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from palestra.schema import JSON_TYPE, JsonDict
from palestra.training.health import Health
from palestra.training.raw import RawRow
from palestra.training.service.wire import (
    LINES_TYPE,
    PACKED_TYPE,
    SERVICE,
    BatchList,
    BatchRequest,
    BatchState,
    CancelRequest,
    GroupLine,
    GroupsQuery,
    Line,
    LinesQuery,
    Nothing,
    PageEnd,
    Problem,
    ServiceStatus,
    StreamEnd,
    WeightVersion,
)

VERSION: Final = 1
REFERENCES: Final = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: how it is called, and what it takes and returns."""

    name: str
    method: str
    path: str
    summary: str
    answer: Any = Nothing
    """The type of the response; `Line` for a stream of lines."""
    body: Any = None
    """The type of the request's body; None without one."""
    query: Any = None
    """The struct of the parameters in the query; None without any."""


OPERATIONS: Final = (
    Operation(
        "service_status", "GET", "/v1", "Return the service and its settings.", ServiceStatus
    ),
    Operation("health", "GET", "/v1/health", "Return whether rollouts can come back.", Health),
    Operation(
        "submit_batch",
        "PUT",
        "/v1/batches/{batch}",
        "Submit rollouts. The client chooses the id, so that sending it twice submits once.",
        BatchState,
        body=BatchRequest,
    ),
    Operation(
        "list_batches",
        "GET",
        "/v1/batches",
        "Return the counts of all batches, such as those of a trainer that was killed.",
        BatchList,
    ),
    Operation(
        "batch_state",
        "GET",
        "/v1/batches/{batch}",
        "Return the counts of a batch, and renew its lease.",
        BatchState,
    ),
    Operation(
        "take_outcomes",
        "GET",
        "/v1/batches/{batch}/outcomes",
        "Stream outcomes as they end.",
        Line,
        query=LinesQuery,
    ),
    Operation(
        "take_groups",
        "GET",
        "/v1/batches/{batch}/groups",
        "Stream groups, each when its last member has ended.",
        Line,
        query=GroupsQuery,
    ),
    Operation(
        "gather",
        "GET",
        "/v1/batches/{batch}/gathered",
        "Stream all outcomes in the order of their requests, once all have ended.",
        Line,
        query=LinesQuery,
    ),
    Operation(
        "cancel_rollouts",
        "POST",
        "/v1/batches/{batch}/cancel",
        "Cancel rollouts, which end as failed.",
        BatchState,
        body=CancelRequest,
    ),
    Operation(
        "close_batch",
        "DELETE",
        "/v1/batches/{batch}",
        "Cancel what has not ended, wait for its end, and forget the batch.",
        BatchState,
    ),
    Operation("pause", "POST", "/v1/pause", "Start no more rollouts until `resume`."),
    Operation("resume", "POST", "/v1/resume", "Start rollouts again."),
    Operation(
        "hold_calls",
        "POST",
        "/v1/hold",
        "Let no rollout begin a call of the model until the weight version is set.",
    ),
    Operation(
        "set_weight_version",
        "PUT",
        "/v1/weights",
        "Set the version of the model's weights from now on.",
        body=WeightVersion,
    ),
)

STATUSES: Final[Mapping[int, str]] = {
    400: "A setting or a policy is wrong.",
    401: "The token is missing or wrong.",
    404: "There is no such batch.",
    409: "The lines were acknowledged before, the batch is taken in another way, or its id was used.",
    410: "The batch was cancelled, because its client was silent for too long.",
    413: "The body is too large.",
    415: "The body's content type is not application/json.",
    421: "Without a token, only programs of this machine may call.",
    422: "The body, a row or a parameter is wrong.",
    502: "A server of the fleet failed.",
}


def openapi_document() -> JsonDict:
    """Return the OpenAPI document of the service."""
    bodies = [item.body for item in OPERATIONS if item.body is not None]
    answers = [item.answer for item in OPERATIONS if item.answer is not Line]
    kinds = [*bodies, *answers, GroupLine, PageEnd, StreamEnd, Problem]
    _, components = msgspec.json.schema_components(
        list(dict.fromkeys(kinds)), schema_hook=_hook, ref_template=REFERENCES
    )
    paths: JsonDict = {}
    for item in OPERATIONS:
        paths.setdefault(item.path, {})[item.method.lower()] = _described(item)
    return {
        "openapi": "3.1.0",
        "info": {"title": SERVICE, "version": str(VERSION)},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(item: Operation) -> JsonDict:
    problem = {"content": {JSON_TYPE: {"schema": _schema(Problem)}}}
    success = {"description": item.summary, "content": _content(item.answer)}
    failures = {str(status): {"description": text, **problem} for status, text in STATUSES.items()}
    described: JsonDict = {
        "operationId": item.name,
        "summary": item.summary,
        "parameters": _parameters(item),
        "responses": {"200": success, **failures},
    }
    if item.body is not None:
        content = {JSON_TYPE: {"schema": _schema(item.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _content(answer: Any) -> JsonDict:
    if answer is not Line:
        return {JSON_TYPE: {"schema": _schema(answer)}}
    packed = {"type": "array", "items": {"description": "A line, or the last line as bytes."}}
    return {LINES_TYPE: {"schema": _schema(answer)}, PACKED_TYPE: {"schema": packed}}


def _schema(kind: Any) -> JsonDict:
    (schema,), _ = msgspec.json.schema_components(
        [kind], schema_hook=_hook, ref_template=REFERENCES
    )
    return schema


def _parameters(item: Operation) -> list[JsonDict]:
    parameters: list[JsonDict] = []
    if "{batch}" in item.path:
        text = {"type": "string"}
        parameters.append({"name": "batch", "in": "path", "required": True, "schema": text})
    if item.query is None:
        return parameters
    _, components = msgspec.json.schema_components([item.query], ref_template=REFERENCES)
    schema = components[item.query.__name__]
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        parameters.append(
            {"name": name, "in": "query", "required": name in required, "schema": field}
        )
    return parameters


def _hook(kind: type) -> JsonDict:
    if kind is RawRow:
        return {"type": "object", "description": "The result row as the agent returned it."}
    raise NotImplementedError(kind.__name__)
