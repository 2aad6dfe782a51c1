"""`server_client` inside a worker: the worker sends each call to the server's process, which makes
it.

`Questions` and `ServerElsewhere` run in the worker, `reply_to` runs in the server's process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, final

import orjson

from palestra.errors import CallError, InfraError, from_body, to_body
from palestra.fleet.isolation.wire import ASK, REPLY, message_frame, order_frame
from palestra.schema import encode_json
from palestra.server import error_text
from palestra.transport import (
    SESSION_SCOPE_KEY,
    ASGIApp,
    CallContext,
    ServerClient,
    calling,
    parse_set_cookies,
)

NO_CALL: Final = 0
"""The number of a call that belongs to no rollout: made by `start` or by a background task of the
author's code."""

_OWN_HEADERS: Final = ("x-palestra-", "authorization", "cookie", "content-type", "content-length")

Question = tuple[str, str, str, list[tuple[str, str]], bytes, str | None]
"""A call through `server_client`: server, method, path with query, headers, body, session."""


@final
class Questions:
    """The calls that a worker has sent and that have no answer yet."""

    def __init__(self) -> None:
        self.serving: ContextVar[int] = ContextVar("palestra_author_call", default=NO_CALL)
        """The number of the call that is being served."""
        self._send: Callable[[bytes], object] | None = None
        self._open: dict[int, asyncio.Future[tuple[Any, ...]]] = {}
        self._next = 0

    def connect(self, send: Callable[[bytes], object]) -> None:
        """Send all calls with `send` from now on."""
        self._send = send

    async def ask(self, question: Question) -> tuple[Any, ...]:
        """Send a call; return the status, headers and body of its response. Raises `CallError`."""
        if self._send is None:
            raise InfraError(
                "server_client was called before the server has started",
                hint="call it in start() or later, not in the constructor",
            )
        self._next += 1
        number = self._next
        future = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(message_frame(ASK, self.serving.get(), number, *question))
            answer: tuple[Any, ...] = await future
        finally:
            del self._open[number]
        if len(answer) == 1:
            raise from_body(orjson.loads(answer[0])) or InfraError("the call failed")
        return answer

    def answered(self, number: int, answer: tuple[Any, ...]) -> None:
        """Pass the answer of the call `number` to the code that waits for it."""
        waiting = self._open.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


@final
class ServerElsewhere:
    """A server of the fleet, as code in a worker uses it."""

    def __init__(self, name: str, questions: Questions) -> None:
        self._name = name
        self._questions = questions

    def typed_endpoint(self, _path: str, /) -> None:
        """Return None: Python objects cannot be passed to another process."""

    def asgi_app(self) -> ASGIApp:
        """Return an ASGI app that sends each request to the server's process."""
        return self._app

    async def _app(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[..., Awaitable[None]],
    ) -> None:
        body = (await receive()).get("body", b"")
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
        session = scope.get(SESSION_SCOPE_KEY)
        status, reply_headers, reply_body = await self._questions.ask(
            (self._name, scope["method"], path, headers, body, session)
        )
        encoded = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in reply_headers]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": reply_body})


async def reply_to(
    question: list[Any], number: int, context: CallContext, client: ServerClient, *, server: str
) -> bytes:
    """Make the call of a worker of `server` in this process, and return the frame with its answer.

    Raises nothing, because the author's code in the worker waits for the frame.
    """
    try:
        with calling(context):
            return order_frame(REPLY, number, await _answer_of(client, *question))
    except CallError as error:
        failure = error
    except Exception as error:  # whatever went wrong here, the author's code waits
        failure = InfraError(
            f"{server}: its call through server_client failed: {error_text(error)}"
        )
    return order_frame(REPLY, number, (encode_json(to_body(failure)),))


async def _answer_of(
    client: ServerClient,
    server: str,
    method: str,
    path: str,
    headers: list[tuple[str, str]],
    body: bytes,
    session_id: str | None,
) -> tuple[Any, ...]:
    """Make the call; return the status, headers and body of its response."""
    cookies = [value for name, value in headers if name.lower() == "cookie"]
    reply = await client.forward(
        server,
        method,
        path,
        body=body,
        headers={n: v for n, v in headers if not n.lower().startswith(_OWN_HEADERS)},
        cookies=parse_set_cookies(cookies[0].split(";")) if cookies else {},
        session_id=session_id,
    )
    kept_headers = [(n, v) for n, v in reply.headers.items() if n.lower() != "set-cookie"]
    kept_headers += [("set-cookie", f"{n}={v}; path=/") for n, v in reply.cookies.items()]
    return reply.status, kept_headers, reply.body
