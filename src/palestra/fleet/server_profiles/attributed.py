"""A context variable that holds a server's number exactly while the server's code runs.

A rollout's task runs through several servers, each awaiting the next. If the variable were set for
the whole call, a task that resumes in the innermost server would run the outer servers' frames
under the innermost server's number. So the variable is set for every step of the callee's
coroutine, and reset whenever the coroutine suspends.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, final

from palestra.server import Server
from palestra.transport import ASGIApp

NOBODY: Final = 0
running: Final[ContextVar[int]] = ContextVar("palestra_profiled_server", default=NOBODY)
"""The number of the server whose code runs in this context."""


@final
class Attributed(Awaitable[Any]):
    """A coroutine whose code is counted for server `number`."""

    __slots__ = ("_coroutine", "_number")

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._number = number
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the coroutine to its end, step by step."""
        step: Callable[[Any], Any] = self._coroutine.send
        sent_value: Any = None
        while True:
            token = running.set(self._number)
            try:
                awaited = step(sent_value)
            except StopIteration as end:
                return end.value
            finally:
                running.reset(token)
            try:
                sent_value = yield awaited
                step = self._coroutine.send
            except BaseException as error:  # the coroutine's to handle, whatever it is
                sent_value, step = error, self._coroutine.throw


@final
class ProfiledEndpoint:
    """An endpoint whose calls are counted as its server's code."""

    __slots__ = ("_endpoint", "_number", "is_tool")

    def __init__(self, number: int, endpoint: Any) -> None:
        self._number = number
        self._endpoint = endpoint
        self.is_tool: bool = endpoint.is_tool

    async def invoke(self, body: Any, /, *, session_id: str) -> Any:
        """Call the endpoint's `invoke` and count it for the server."""
        return await Attributed(self._number, self._called(body, session_id))

    async def _called(self, body: Any, session_id: str) -> Any:
        # The checks of the body, which come before the coroutine, are the server's work too.
        return await self._endpoint.invoke(body, session_id=session_id)


@final
class ProfiledServer:
    """A wrapper around a server in this process. Everything that callers run through it is counted
    as the server's code.
    """

    def __init__(self, number: int, server: Server, stats: ASGIApp) -> None:
        self._number = number
        self._server = server
        self._stats = stats

    async def start(self) -> None:
        """Start the server."""
        await Attributed(self._number, self._server.start())

    def typed_endpoint(self, path: str, /) -> ProfiledEndpoint | None:
        """Return the endpoint at `path`, if it can be called with Python objects; else None."""
        endpoint = self._server.typed_endpoint(path)
        return None if endpoint is None else ProfiledEndpoint(self._number, endpoint)

    def asgi_app(self) -> ASGIApp:
        """Return the server's app, with `GET /stats` added."""
        app, stats = self._server.asgi_app(), self._stats

        async def profiled_app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/stats"):
                await stats(scope, receive, send)
                return
            await Attributed(self._number, _run(app, scope, receive, send))

        return profiled_app


async def _run(app: ASGIApp, scope: Any, receive: Any, send: Any) -> None:
    await app(scope, receive, send)
