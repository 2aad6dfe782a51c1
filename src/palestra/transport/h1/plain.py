"""`PlainTransport`: what goes on which connection, and what may be sent a second time."""

import asyncio
from typing import Final, final

from palestra.errors import DeadlineExceeded
from palestra.transport.h1.connection import NEVER, Connection, ExchangeEnded, Late
from palestra.transport.h1.pool import IDLE_S, Host, Opened
from palestra.transport.h1.requests import RequestHeads
from palestra.transport.h1.room import Room
from palestra.transport.http import ConnectionFailed, HttpReply, HttpRequest

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""RFC 9110 section 9.2.2: sending these twice asks for no more than sending them once."""


@final
class PlainTransport:
    """HTTP/1.1 without TLS. `limit` bounds the exchanges under way, 0 does not.

    A kept connection may turn out to have died just as a request went out on it, before one byte
    of the answer. Nobody can tell whether the server had read the request. Methods that are
    idempotent, and requests marked `repeatable`, then go out once more at once, on a fresh
    connection. Others fail with `sent=True`: what to do is their caller's knowledge.

    Connections belong to the event loop that opened them: under another loop it begins anew.
    """

    def __init__(self, *, limit: int = 0, limit_per_host: int = 0) -> None:
        self._heads = RequestHeads()
        self._limit = limit
        self._limit_per_host = limit_per_host
        self._sweeper: asyncio.TimerHandle | None = None
        self._begin(None)

    async def send(self, request: HttpRequest, /) -> HttpReply:
        """Besides what every transport raises: `RequestRefused` when it cannot be sent."""
        route = self._heads.route(request.method, request.url)
        head = self._heads.head(route, request)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._begin(loop)
        now = loop.time()
        timeout_s = request.timeout_s
        deadline = NEVER if timeout_s is None else now + timeout_s
        if deadline <= now:
            raise _late(request)
        host = self._hosts.get(route.address) or self._new_host(route.address)
        if not host.try_enter():
            await _wait_for(host, deadline, request)
            now = loop.time()
        try:
            connection = host.take(now)
            while True:
                if connection is None:
                    connection = await _connect(host, request, deadline)
                try:
                    reply = await connection.begin(head, request.body, deadline, route.bodiless)
                except BaseException as ended:
                    # Cancelled too: an answer that nobody waits for must not serve the next one.
                    connection.abort()
                    _raise_unless_repeatable(request, connection, ended)
                    connection = await _connect(host, request, deadline, fresh=True)
                else:
                    host.give(connection, loop.time())
                    if self._sweeper is None:
                        self._sweeper = loop.call_later(IDLE_S, self._sweep, loop)
                    return reply
        finally:
            host.leave()

    async def aclose(self) -> None:
        """Close every connection; what is under way fails."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        await self._opened.close("this side closed it")

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._hosts: dict[tuple[str, int], Host] = {}
        self._opened = Opened()
        self._rooms = (Room(self._limit),) if self._limit else ()
        self._sweeper = None

    def _new_host(self, address: tuple[str, int]) -> Host:
        own = (Room(self._limit_per_host),) if self._limit_per_host else ()
        # A host's own queue comes first: whoever waits in it takes nobody else's place.
        host = Host(address, rooms=own + self._rooms, opened=self._opened)
        self._hosts[address] = host
        return host

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        left = [host.sweep(now) for host in self._hosts.values()]
        self._sweeper = loop.call_later(IDLE_S / 3, self._sweep, loop) if any(left) else None


async def _wait_for(host: Host, deadline: float, request: HttpRequest) -> None:
    try:
        async with asyncio.timeout_at(None if deadline == NEVER else deadline):
            await host.enter()
    except TimeoutError:
        raise _late(request, "all connections were in use") from None


async def _connect(
    host: Host, request: HttpRequest, deadline: float, *, fresh: bool = False
) -> Connection:
    try:
        async with asyncio.timeout_at(None if deadline == NEVER else deadline):
            return await host.connect(fresh=fresh)
    except ConnectionFailed as error:
        raise ConnectionFailed(
            f"{request.url}: {error.message}", sent=False, hint=error.hint
        ) from error.__cause__
    except TimeoutError:
        raise _late(request, "no connection by then") from None


def _raise_unless_repeatable(
    request: HttpRequest, connection: Connection, ended: BaseException
) -> None:
    if isinstance(ended, Late):
        raise _late(request, str(ended)) from None
    if not isinstance(ended, ExchangeEnded):
        raise ended
    repeatable = request.repeatable or request.method.upper() in IDEMPOTENT
    stale = connection.exchanges > 1 and not connection.heard
    if not (stale and (repeatable or not ended.sent)):
        raise ConnectionFailed(f"{request.url}: {ended}", sent=ended.sent) from None


def _late(request: HttpRequest, detail: str = "") -> DeadlineExceeded:
    more = f" ({detail})" if detail else ""
    return DeadlineExceeded(f"{request.url}: no answer within {request.timeout_s:.1f} s{more}")
