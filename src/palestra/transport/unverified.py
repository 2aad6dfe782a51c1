"""What a failed verification must not lose: the request that `/verify` got, with the model's answer.

Who calls `/verify` notes the request on the rollout's activity: whatever ends the rollout from then
on, a deadline included, can give it to the failure. Between processes it travels beside the error,
once.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from palestra.config import ServerType
from palestra.errors import (
    AgentError,
    CallError,
    EnvironmentFault,
    ModelError,
    VerifierError,
    readable,
)
from palestra.schema import JsonObject, encode_json, to_plain
from palestra.transport.context import Activity, current_call

VERIFY = "/verify"


def note_verify_request(path: str, body: Any) -> None:
    """Remember `body` for the rollout, when `path` is where trajectories are verified."""
    activity = current_call().activity
    if path == VERIFY and activity is not None:
        activity.verify_request = body


def add_verify_request(error: CallError, activity: Activity | None) -> CallError:
    """Give a failure the request that the rollout's verification got, unless it has it already."""
    if error.verify_request is None and activity is not None:
        error.verify_request = activity.verify_request
    return error


def fields_of_request(request: Any) -> JsonObject:
    """The top level of a verify request; empty when it is no object."""
    if isinstance(request, BaseModel):
        return {**request.__dict__, **(request.model_extra or {})}
    return request if isinstance(request, Mapping) else {}


def encoded_with(body: JsonObject, extra: JsonObject) -> bytes | None:
    """`body` and `extra` as one JSON object; None when `extra` cannot be made JSON.

    What no encoding can write (half a surrogate pair) is written as its escape.
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
    """The class of a failure of the code behind `path` of a server of this type."""
    if server_type == ServerType.MODEL:
        return ModelError
    if server_type == ServerType.AGENT:
        return AgentError
    return VerifierError if path.endswith(VERIFY) else EnvironmentFault
