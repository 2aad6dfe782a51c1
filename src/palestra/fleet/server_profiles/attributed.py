"""Whose code runs: a context variable that is a server's while, and only while, its code does.

A rollout's task runs through several servers, one awaiting the other. Were the variable merely
set for the length of a call, a task that wakes up inside of the innermost server would enter the
outer servers' frames under the innermost one's name. So it is set anew for every step of the
callee's coroutine, and taken back whenever that suspends.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, final

from palestra.server import Server
from palestra.transport import ASGIApp

NOBODY: Final = 0
running: Final[ContextVar[int]] = ContextVar("palestra_profiled_server", default=NOBODY)
"""The number of the server whose code runs here."""


@final
class Attributed(Awaitable[Any]):
    """A coroutine that runs as the code of server `number`."""

    __slots__ = ("_coroutine", "_number")

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._number = number
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        """Step the coroutine to its end."""
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
    """An endpoint whose calls run as its server's code."""

    __slots__ = ("_endpoint", "_number", "is_tool")

    def __init__(self, number: int, endpoint: Any) -> None:
        self._number = number
        self._endpoint = endpoint
        self.is_tool: bool = endpoint.is_tool

    async def invoke(self, body: Any, /, *, session_id: str) -> Any:
        """As the endpoint's own."""
        return await Attributed(self._number, self._called(body, session_id))

    async def _called(self, body: Any, session_id: str) -> Any:
        # The checks of the body, which come before the coroutine, are the server's work too.
        return await self._endpoint.invoke(body, session_id=session_id)


@final
class ProfiledServer:
    """A server in this process as its callers see it; what they call runs as its code."""

    def __init__(self, number: int, server: Server, stats: ASGIApp) -> None:
        self._number = number
        self._server = server
        self._stats = stats

    async def start(self) -> None:
        """Start the server."""
        await Attributed(self._number, self._server.start())

    def typed_endpoint(self, path: str, /) -> ProfiledEndpoint | None:
        """The endpoint at `path`, when it can be called with objects."""
        endpoint = self._server.typed_endpoint(path)
        return None if endpoint is None else ProfiledEndpoint(self._number, endpoint)

    def asgi_app(self) -> ASGIApp:
        """The whole app, and `GET /stats`."""
        app, stats = self._server.asgi_app(), self._stats

        async def answered(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/stats"):
                await stats(scope, receive, send)
                return
            await Attributed(self._number, _run(app, scope, receive, send))

        return answered


async def _run(app: ASGIApp, scope: Any, receive: Any, send: Any) -> None:
    await app(scope, receive, send)
