"""Send the result of an endpoint's method from a worker to the server's process.

A verify response repeats its request, including the whole trajectory. A field that is still the
request's own object is sent by name only, without its value.
"""

import io
import json
import pickle
from collections.abc import Mapping
from typing import Any, final

import orjson
from pydantic import BaseModel
from starlette.responses import Response as HttpResponse

from palestra.schema import WIRE_TYPES, VerifyResponse, encode_json, fields_of, maker, to_plain
from palestra.server import ToolFailure


def body_bytes(body: Any) -> bytes:
    """Return a request body as bytes. Raises TypeError, AttributeError or PicklingError when it
    cannot be pickled.
    """
    file = io.BytesIO()
    _Compact(file, protocol=5).dump(body)
    return file.getvalue()


def exact_body_bytes(body: Any) -> bytes:
    """Return a request body as bytes, with all objects pickled. Needed for objects that were built
    without validation.
    """
    return pickle.dumps(body, protocol=5)


def read_body(content: bytes) -> Any:
    """Return the body from the bytes of `body_bytes` or `exact_body_bytes`. Raises what the classes
    of its objects raise.
    """
    return pickle.loads(content)  # noqa: S301  # from the process that made us


def _as_json(value: BaseModel) -> tuple[Any, ...]:
    return _from_json, (type(value), encode_json(value))


def _from_json(kind: type[BaseModel], content: bytes) -> BaseModel:
    return kind.model_validate(orjson.loads(content))


@final
class _Compact(pickle.Pickler):
    dispatch_table = dict.fromkeys(WIRE_TYPES, _as_json)


TEXT, TOOL_FAILURE, HTTP, FIELDS, VERIFIED, PLAIN = (
    "text",
    "tool",
    "http",
    "fields",
    "verified",
    "plain",
)

_make_verify_response = maker(VerifyResponse)
_OF_VERIFY_RESPONSE = frozenset(VerifyResponse.model_fields)


def packed(result: Any, body: Any) -> list[Any]:
    """Return a result as values that MessagePack can encode. Raises TypeError when the result is
    not JSON.
    """
    if isinstance(result, str):
        return [TOOL_FAILURE if isinstance(result, ToolFailure) else TEXT, str(result)]
    if isinstance(result, HttpResponse):
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in result.raw_headers]
        return [HTTP, result.status_code, headers, bytes(result.body)]
    kind = VERIFIED if isinstance(result, VerifyResponse) else FIELDS
    if isinstance(result, BaseModel):
        result = fields_of(result)
    if not isinstance(result, dict) or not all(isinstance(name, str) for name in result):
        return [PLAIN, _encoded(result)]
    request_fields = fields_by_name(body)
    changed = {
        name: value
        for name, value in result.items()
        if name not in request_fields or request_fields[name] is not value
    }
    return [kind, list(result), _encoded(changed)]


def unpacked(packet: list[Any], body: Any) -> Any:
    """Return the result that `packed` encoded. `body`: the request that the worker received."""
    match packet:
        case [str(kind), str(text)] if kind in {TEXT, TOOL_FAILURE}:
            return ToolFailure(text) if kind == TOOL_FAILURE else text
        case [str(kind), int(status), list(headers), bytes(content)] if kind == HTTP:
            answer = HttpResponse(content, status_code=status)
            answer.raw_headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers]
            return answer
        case [str(kind), bytes(content)] if kind == PLAIN:
            return _decoded(content)
        case [str(kind), list(names), bytes(content)] if kind in {FIELDS, VERIFIED}:
            changed, request_fields = _decoded(content), fields_by_name(body)
            fields = {
                name: changed[name] if name in changed else request_fields[name] for name in names
            }
            return _as_verified(fields) if kind == VERIFIED else fields
    raise ValueError(f"a result of the unknown kind {packet[:1]!r}")


def _encoded(value: Any) -> bytes:
    try:
        return encode_json(value)
    except TypeError:
        # Half a surrogate pair is no UTF-8, and a tool may answer one: without a worker, the
        # server's process decides what becomes of it. Python's own JSON escapes it.
        return json.dumps(to_plain(value)).encode()


def _decoded(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return json.loads(content)


def _as_verified(fields: dict[str, Any]) -> VerifyResponse:
    protocol_fields = {name: fields.pop(name) for name in _OF_VERIFY_RESPONSE if name in fields}
    return _make_verify_response(protocol_fields, fields)


def fields_by_name(body: Any) -> Mapping[str, Any]:
    """Return a request's fields by name, including unknown fields."""
    if isinstance(body, BaseModel):
        return {**body.__dict__, **(body.model_extra or {})}
    return body if isinstance(body, Mapping) else {}
