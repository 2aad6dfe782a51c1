"""Faults in an own agent's calls of an environment that do not fail the rollout.

An agent may read an answer without a look at its status, or verify without the cookies of its
session. The rollout then has a reward that the policy did not earn. The row lists such calls under
`tool_failures`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, final

import orjson

from palestra.errors import AgentError, CallError, VerifierError, from_body, to_body
from palestra.schema import encode_json, field_of
from palestra.server import INFERRED_REVERIFY_MODE, REVERIFY_MODE_PATH, ToolFault
from palestra.transport import (
    Activity,
    HttpReply,
    ServerClient,
    ServerReply,
    current_call,
    is_tool_path,
)

SEED_SESSION: Final = "/seed_session"
VERIFY: Final = "/verify"

MODEL_PATHS: Final = ("/v1/responses", "/v1/chat/completions")
"""The ends of the paths at which models answer with tool calls."""

_FRAMEWORKS_REFUSALS: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
_NOTED_PATHS: Final = frozenset({SEED_SESSION, VERIFY, "/reset", "/step"})
STATELESS: Final = "stateless"
_WITH_COOKIES: Final = f"write cookies=<the answer of {SEED_SESSION}>.cookies"
LONGEST_MESSAGE: Final = 500
MOST_FAULTS: Final = 50
"""The largest number of faults that one row lists."""


def note_refusal(path: str, status: int, body: bytes, model_reply: bytes) -> None:
    """Keep for the row that an environment answered the call of `path` with an error.

    An error that a tool means for the model is not kept, nor a wrong name or wrong arguments that the
    model itself wrote in `model_reply`: such calls are errors of the policy.
    """
    call = current_call()
    if call.activity is None or call.in_environment:
        return
    if not is_tool_path(path) and path not in _NOTED_PATHS:
        return
    payload = _json(body)
    failure, name = from_body(payload), path.removeprefix("/")
    is_bug = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_tool_path(path) and not is_bug:
        is_answer = not _is_frameworks(status, failure, payload)
        if is_answer or name in _called_tools(_json(model_reply)):
            return
    _note(call.activity, _refused(name, status, failure, body))


def _is_frameworks(status: int, failure: CallError | None, payload: Any) -> bool:
    """Whether no code of the environment made this answer: there is no such path, or the body does
    not fit.
    """
    if failure is not None:
        is_unrouted = status in _FRAMEWORKS_REFUSALS and not failure.retriable
        return is_unrouted or bool(failure.evidence.problems)
    detail = field_of(payload, "detail")
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return isinstance(detail, list)
    return status in _FRAMEWORKS_REFUSALS and detail in {"Not Found", "Method Not Allowed"}


def _called_tools(answer: Any) -> set[str]:
    """Return the names of the tools that a model's answer calls."""
    return set(_calls(answer))


def _calls(answer: Any) -> Iterator[str]:
    for item in _list(answer, "output"):
        if field_of(item, "type") == "function_call":
            yield str(field_of(item, "name"))
    for choice in _list(answer, "choices"):
        for tool_call in _list(field_of(choice, "message"), "tool_calls"):
            yield str(field_of(field_of(tool_call, "function"), "name"))


def _list(value: Any, name: str) -> list[Any]:
    items = field_of(value, name)
    return items if isinstance(items, list) else []


def _refused(name: str, status: int, failure: CallError | None, body: bytes) -> ToolFault:
    text = body.decode("utf-8", "replace") if failure is None else failure.message
    kind, separator, message = text.partition(" raised ")[2].partition(": ")
    if failure is None or not failure.evidence.traceback or not separator:
        kind, message = f"HTTP {status}", text
        return ToolFault(name, kind, message[:LONGEST_MESSAGE])
    at = failure.evidence.traceback.splitlines()[-1]
    return ToolFault(name, kind, message[:LONGEST_MESSAGE], at)


@final
class SeededSessions:
    """The sessions that one call of an author's code has opened, by server."""

    def __init__(self) -> None:
        self._cookie_names: dict[str, frozenset[str]] = {}

    def opened(
        self, server: str, cookies: Mapping[str, str], request_cookies: Mapping[str, str]
    ) -> None:
        """Note the answer of `/seed_session`, which set `cookies`."""
        self._cookie_names[server] = frozenset(cookies or request_cookies)

    def is_lost(self, server: str, request_cookies: Mapping[str, str]) -> bool:
        """Whether a call with these cookies is outside of the session that was opened."""
        names = self._cookie_names.get(server, frozenset())
        return bool(names) and names.isdisjoint(request_cookies)


async def depends_on_session(client: ServerClient, server: str) -> bool:
    """Whether `verify` of `server` may read its session. It may where the server does not say."""
    try:
        reply = await client.get(server, REVERIFY_MODE_PATH)
    except CallError:
        return True
    mode = _json(reply.content.body) if reply.ok else None
    if isinstance(mode, dict):
        mode = mode.get("reverify_mode")
    return STATELESS not in {mode, reply.headers.get(INFERRED_REVERIFY_MODE)}


def note_lost_session(where: str, server: str) -> str:
    """Keep for the row that the agent's code `where` verified a new session of `server`. Return what
    to tell its author.
    """
    message = f"{_in_new_session(where, server)}; {_WITH_COOKIES}"
    activity = current_call().activity
    if activity is not None:
        _note(activity, ToolFault(VERIFY.removeprefix("/"), "SessionLost", message))
    return message


def failed_in_new_session(reply: ServerReply, where: str) -> ServerReply:
    """Return the answer to a verification of a new session by the agent's code `where`: when the
    verifier failed, the failure is the agent's.
    """
    failure = from_body(_json(reply.content.body))
    if not isinstance(failure, VerifierError):
        return reply
    message = f"{_in_new_session(where, reply.server)}: {failure.message}"
    evidence = replace(failure.evidence, traceback="")
    lost = AgentError(message, hint=_WITH_COOKIES, evidence=evidence)
    lost.retriable = failure.retriable
    lost.verify_request = failure.verify_request
    body = encode_json(to_body(lost))
    answer = HttpReply(reply.status, body, reply.headers, reply.cookies)
    return ServerReply(answer, server=reply.server, url=reply.url)


def _in_new_session(where: str, server: str) -> str:
    return (
        f"{where} calls {server}{VERIFY} without the cookies of its {SEED_SESSION}, and so in a new "
        "session"
    )


def _note(activity: Activity, fault: ToolFault) -> None:
    if len(activity.agent_faults) < MOST_FAULTS:
        activity.agent_faults.append(fault.as_json())


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
