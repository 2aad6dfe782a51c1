"""The sandbox as a service: an app over a `Sandbox`, for machines that cannot isolate programs.

    GET    /                     what it is
    POST   /run                  a program; answers with its result
    POST   /conversations        a program to talk to; answers with an id
    POST   /conversations/ID     a message, raw; answers with the program's, raw
    DELETE /conversations/ID     stops it; answers with its result

503 means that the sandbox failed, 410 that a conversation has ended.
"""

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

import orjson
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from palestra.errors import BadInput, InfraError
from palestra.sandbox.backend import Conversation, ConversationEnded
from palestra.sandbox.sandbox import Sandbox
from palestra.sandbox.service_wire import SERVICE, WITHIN_HEADER, ProgramMessage, ServiceStatus

T = TypeVar("T")

IDLE_S: Final = 3600.0
"""Seconds without a message after which a conversation is ended: its owner is gone."""

_JSON: Final = "application/json"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class _Open:
    conversation: Conversation
    stack: AsyncExitStack
    expiry: asyncio.TimerHandle | None = None


class _GoneAway(Exception):
    """Who asked is not there any more."""


@final
class SandboxService:
    """The service's state: the conversations that are open."""

    def __init__(self, sandbox: Sandbox, *, token: str = "", idle_s: float = IDLE_S) -> None:
        self._sandbox = sandbox
        self._token = token
        self._idle_s = idle_s
        self._open: dict[str, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def app(self) -> Starlette:
        """The app."""
        return Starlette(
            routes=[
                Route("/", self._guarded(self._status)),
                Route("/run", self._guarded(self._run), methods=["POST"]),
                Route("/conversations", self._guarded(self._begin), methods=["POST"]),
                Route("/conversations/{id}", self._guarded(self._ask), methods=["POST"]),
                Route("/conversations/{id}", self._guarded(self._end), methods=["DELETE"]),
            ]
        )

    async def aclose(self) -> None:
        """End every conversation."""
        for name in list(self._open):
            await self._forget(name)
        if self._closing:
            await asyncio.wait(self._closing)

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if self._token and not hmac.compare_digest(
                given.encode(), f"Bearer {self._token}".encode()
            ):
                return _problem(401, "the sandbox service asks for its token")
            try:
                return await handler(request)
            except (ValidationError, ValueError) as error:
                return _problem(422, str(error))
            except (InfraError, BadInput) as error:
                return _problem(503, error.message)
            except _GoneAway:
                return _problem(499, "nobody waits for this")

        return guarded

    async def _status(self, request: Request) -> Response:
        del request
        backend = await self._sandbox.start()
        return _json(
            ServiceStatus(service=SERVICE, backend=backend.name, isolates=backend.isolates)
        )

    async def _run(self, request: Request) -> Response:
        message = ProgramMessage.model_validate_json(await request.body())
        running = self._sandbox.run(message.program(), stdin=message.input(), limits=message.limits)
        return _json(await _while_connected(request, running))

    async def _begin(self, request: Request) -> Response:
        message = ProgramMessage.model_validate_json(await request.body())
        async with AsyncExitStack() as stack:
            conversation = await stack.enter_async_context(
                self._sandbox.converse(message.program(), limits=message.limits)
            )
            name = secrets.token_urlsafe(16)
            self._open[name] = _Open(conversation, stack.pop_all())
        self._expect(name)
        return Response(orjson.dumps({"id": name}), media_type=_JSON)

    async def _ask(self, request: Request) -> Response:
        name = request.path_params["id"]
        found = self._open.get(name)
        if found is None:
            return _problem(410, "there is no such conversation")
        within_s = float(request.headers.get(WITHIN_HEADER, "60"))
        message = await request.body()
        self._do_not_expect(found)
        try:
            answer = await _while_connected(
                request, self._answer(found.conversation, message, within_s)
            )
        except ConversationEnded:
            return _problem(410, "the conversation has ended")
        except _GoneAway:
            # The answer that nobody took would be read as the one to the next message.
            await self._forget(name)
            raise
        finally:
            self._expect(name)
        return Response(answer, media_type="application/octet-stream")

    async def _answer(self, conversation: Conversation, message: bytes, within_s: float) -> bytes:
        async with self._sandbox.place():
            return await conversation.ask(message, within_s=within_s)

    async def _end(self, request: Request) -> Response:
        found = self._open.get(request.path_params["id"])
        if found is None:
            return _problem(410, "there is no such conversation")
        result = await found.conversation.end()
        await self._forget(request.path_params["id"])
        return _json(result)

    # How long a conversation is kept

    def _expect(self, name: str) -> None:
        found = self._open.get(name)
        if found is not None:
            loop = asyncio.get_running_loop()
            found.expiry = loop.call_later(self._idle_s, self._expire, name)

    @staticmethod
    def _do_not_expect(found: _Open) -> None:
        if found.expiry is not None:
            found.expiry.cancel()

    def _expire(self, name: str) -> None:
        closing = asyncio.ensure_future(self._forget(name))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _forget(self, name: str) -> None:
        found = self._open.pop(name, None)
        if found is not None:
            self._do_not_expect(found)
            await found.stack.aclose()


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when nobody waits for it any more.

    Raises `_GoneAway` then.
    """
    working = asyncio.ensure_future(work)
    async with _cancelled_at_the_end(_disconnected(request)) as gone:
        try:
            first: set[asyncio.Future[Any]] = {working, gone}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
    if working.cancelled():
        raise _GoneAway
    return working.result()


@contextlib.asynccontextmanager
async def _cancelled_at_the_end(
    work: Awaitable[None],
) -> AsyncIterator["asyncio.Future[None]"]:
    working = asyncio.ensure_future(work)
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.wait({working})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type=_JSON)


def _problem(status: int, message: str) -> Response:
    return Response(orjson.dumps({"error": message}), status_code=status, media_type=_JSON)
