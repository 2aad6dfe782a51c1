"""Middleware that adds a fleet's features to the requests of a hosted environment.

- `/seed_session`: the response also describes how to reach the tools over MCP, if they are offered.
- `/verify`: calls recorded by an MCP client get the tools' own names. When a stored row is verified
again, the judge's recorded responses are used.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, final

import orjson
from pydantic import ValidationError

from palestra.errors import JudgeFailure
from palestra.schema import (
    JUDGE_EVALUATIONS,
    JUDGE_REPLAY,
    JsonDict,
    JsonObject,
    JudgeReplay,
    ResponseCreateParams,
    encode_json,
    to_plain,
)
from palestra.server import SESSION_ID_KEY, McpDoor, own_name
from palestra.transport import ASGIApp, HttpReply

RESPONSES_PATH = "/v1/responses"

_replay: ContextVar[JudgeReplay | None] = ContextVar("palestra_compat_replay", default=None)


@contextmanager
def replaying(body: JsonObject) -> Iterator[None]:
    """Return a context in which judge calls are answered with the responses recorded in the row
    `body`.
    """
    evaluations = body.get(JUDGE_EVALUATIONS)
    replay = JudgeReplay(evaluations if isinstance(evaluations, list) else (), replays=True)
    token = _replay.set(replay)
    try:
        yield
    finally:
        _replay.reset(token)


def is_replayed(body: JsonObject) -> bool:
    """Whether the verify request `body` asks to score a stored row with its recorded judge
    responses.
    """
    return body.get(JUDGE_REPLAY) is True


def is_stored(body: JsonObject) -> bool:
    """Whether the verify request `body` is a stored row, with a recorded or a fresh judge.

    A new task holds no judge responses.
    """
    return is_replayed(body) or JUDGE_EVALUATIONS in body


def recorded_reply(server: str, path: str, body: Any, *, running: bool) -> HttpReply | None:
    """Return the response that the judge gave to the request `body` before; None when the judge
    must be called.

    Raises JudgeFailure: the row has no response to `body`, and `server` is not `running`.
    """
    replay = _replay.get()
    if replay is None:
        return None
    exchange = None
    if path.strip("/") == RESPONSES_PATH.strip("/"):
        try:
            question = ResponseCreateParams.model_validate(to_plain(body))
        except ValidationError:
            return None  # for the judge's own server to refuse
        exchange = replay.exchange(question)
    if exchange is not None:
        content = encode_json(exchange.held["response"])
        return HttpReply(200, content, headers={"content-type": "application/json"})
    if not running:
        raise JudgeFailure(
            f"the row holds no answer of the judge {server} to this question",
            hint="--fresh-judge starts the judge and asks it",
        )
    return None


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@final
class RowLayer:
    """ASGI middleware. `door`: the `McpDoor` to the tools, when they are offered over MCP.

    `reported`: the fields that only the verify response has. They are removed from a stored row
    that is verified again, because verifiers build the response from the request's fields and their
    own.
    """

    def __init__(
        self, app: ASGIApp, *, server: str, door: McpDoor | None, reported: Collection[str]
    ) -> None:
        self._app = app
        self._server = server
        self._door = door
        self._left_out = {*reported, JUDGE_EVALUATIONS, JUDGE_REPLAY}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == "/verify":
            await self._verify(scope, receive, send)
        elif path == "/seed_session" and self._door is not None:
            answer = _Whole()
            await self._app(scope, receive, answer.send)
            await answer.pass_on(send, self._door.described(scope["session"][SESSION_ID_KEY]))
        else:
            await self._app(scope, receive, send)

    async def _verify(self, scope: Any, receive: Receive, send: Send) -> None:
        messages, raw = await _read_body(receive)
        body = _object(raw) if self._concerns(raw) else None
        around: AbstractContextManager[None] = contextlib.nullcontext()
        if body is not None:
            if is_replayed(body):
                around = replaying(body)
            if is_stored(body):
                body = {name: body[name] for name in body if name not in self._left_out}
            if self._door is not None:
                _name_plainly(body, self._server)
            messages = [{"type": "http.request", "body": encode_json(body), "more_body": False}]

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        with around:
            await self._app(scope, replay, send)

    def _concerns(self, raw: bytes) -> bool:
        # Most bodies hold neither, and are not worth decoding twice.
        marks = (JUDGE_REPLAY.encode(), JUDGE_EVALUATIONS.encode())
        return any(name in raw for name in marks) or (self._door is not None and b"mcp__" in raw)


async def _read_body(receive: Receive) -> tuple[list[Message], bytes]:
    """Return the messages of a request and its body. The body is incomplete if the caller
    disconnected.
    """
    messages = []
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request" or not message.get("more_body"):
            return messages, b"".join(message.get("body", b"") for message in messages)


def _object(raw: bytes) -> JsonDict | None:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _name_plainly(body: JsonDict, server: str) -> None:
    response = body.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    for item in output if isinstance(output, list) else ():
        if isinstance(item, dict) and item.get("type") == "function_call":
            name = item.get("name")
            item["name"] = own_name(name, server=server) if isinstance(name, str) else name


@final
class _Whole:
    """A response that is held back until it is complete."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def send(self, message: Message) -> None:
        """Store one message of the response that the app sends."""
        self._messages.append(message)

    async def pass_on(self, send: Send, mcp_fields: JsonDict) -> None:
        """Send the stored response. If it is a successful JSON object, add `mcp_fields` as its
        field `mcp`.
        """
        start, body = self._messages[0], b"".join(m.get("body", b"") for m in self._messages[1:])
        seeded = _object(body) if start["status"] < 300 else None
        if seeded is None:
            for message in self._messages:
                await send(message)
            return
        content = encode_json({**seeded, "mcp": mcp_fields})
        headers = [header for header in start["headers"] if header[0].lower() != b"content-length"]
        length = (b"content-length", str(len(content)).encode())
        await send({**start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": content})
