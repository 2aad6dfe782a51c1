"""Keeps of a call of `/verify` what an agent may lose: its request, with the model's answer, when
the verification fails; and the tool calls that failed.

The caller of `/verify` stores the request in the rollout's activity. Whatever ends the rollout
after that, such as a deadline, the request can be added to the error. Between processes it is sent
once, next to the error.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from palestra.config import ServerType
from palestra.errors import (
    AgentError,
    CallError,
    EnvironmentFault,
    KnownCause,
    ModelError,
    VerifierError,
    readable,
)
from palestra.schema import TOOL_FAILURES, JsonObject, encode_json, field_of, to_plain
from palestra.transport.context import Activity, current_call

VERIFY = "/verify"


def note_verify_request(path: str, body: Any) -> None:
    """Store `body` in the rollout's activity if `path` is `/verify`."""
    activity = current_call().activity
    if path == VERIFY and activity is not None:
        activity.verify_request = body


def note_tool_failures(path: str, body: bytes) -> None:
    """Store the failed tool calls of a reply in the rollout's activity if `path` is `/verify`; those
    of an earlier reply are dropped.
    """
    activity = current_call().activity
    if path != VERIFY or activity is None:
        return
    activity.tool_failures = []
    if TOOL_FAILURES.encode() not in body:
        return
    with contextlib.suppress(orjson.JSONDecodeError):
        failures = field_of(orjson.loads(body), TOOL_FAILURES)
        activity.tool_failures = failures if isinstance(failures, list) else []


def add_verify_request(error: CallError, activity: Activity | None) -> CallError:
    """Add the rollout's verify request to a failure, unless the failure has one already, or no later
    verification could score it.
    """
    if error.cause is KnownCause.NO_EPISODE:
        return error
    if error.verify_request is None and activity is not None:
        error.verify_request = activity.verify_request
    return error


def fields_of_request(request: Any) -> JsonObject:
    """Return the top-level fields of a verify request; {} when it is no object."""
    if isinstance(request, BaseModel):
        return {**request.__dict__, **(request.model_extra or {})}
    return request if isinstance(request, Mapping) else {}


def encoded_with(body: JsonObject, extra: JsonObject) -> bytes | None:
    """Return `body` and `extra` as one JSON object; None when `extra` cannot be JSON.

    Text that cannot be encoded (half a surrogate pair) is written as its escape.
    """
    try:
        return encode_json({**body, **extra})
    except (TypeError, ValueError):
        pass
    try:
        return encode_json({**body, **readable(to_plain(extra))})
    except (TypeError, ValueError):
        return None


def fault_of(server_type: str, path: str) -> type[CallError]:
    """Return the error class for a bug in the code of `path`, on a server of this type."""
    if server_type == ServerType.MODEL:
        return ModelError
    if server_type == ServerType.AGENT:
        return AgentError
    return VerifierError if path.endswith(VERIFY) else EnvironmentFault
