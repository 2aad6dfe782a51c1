"""`HttpClient`: assigns requests to connections, and decides what may be sent a second time."""

import asyncio
import os
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final, TypeVar, final

from palestra.errors import DeadlineExceeded
from palestra.transport.h1.connection import NEVER, ExchangeEnded, HttpConnection, Late, Unsent
from palestra.transport.h1.dialing import Address, Dialer, Resolve
from palestra.transport.h1.pool import IDLE_S, ExchangeSlots, HostConnections
from palestra.transport.h1.proxies import Proxies
from palestra.transport.h1.requests import RequestHeads
from palestra.transport.http import (
    CONNECTOR_LIMIT,
    CertificateRejected,
    ConnectionFailed,
    HttpReply,
    HttpRequest,
)

T = TypeVar("T")

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that have the same effect when sent twice as when sent once (RFC 9110 section 9.2.2)."""

CLOSING_TURNS: Final = 1_000
"""The largest number of event loop iterations to wait for connections to close; a few are usual."""


@final
class HttpClient:
    """An HTTP/1.1 client. `limit` and `limit_per_host`: the largest number of concurrent exchanges;
    0: no limit.

    `variables`: the variables that name the proxies, by default the environment's. `resolve`:
    returns the addresses of a name that may be connected to; with `resolve` no proxy is used.

    A kept connection may break just when a request is sent, before the first byte of the answer. It
    is then unknown whether the server has read the request. Idempotent methods, and requests marked
    `repeatable`, are sent once more at once, on a new connection. Other requests fail with
    `was_sent=True`, and the caller decides. A request that was not written at all is always sent
    once more.

    Connections belong to the event loop that opened them. On another loop the client starts without
    connections.
    """

    def __init__(
        self,
        *,
        limit: int = CONNECTOR_LIMIT,
        limit_per_host: int = 0,
        variables: Mapping[str, str] = os.environ,
        resolve: Resolve | None = None,
    ) -> None:
        self._heads = RequestHeads(Proxies({} if resolve is not None else variables))
        self._dialer = Dialer(resolve)
        self._limit = limit
        self._limit_per_host = limit_per_host
        self._sweeper: asyncio.TimerHandle | None = None
        self._begin(None)

    async def send(self, request: HttpRequest, /) -> HttpReply:
        """Send a request and return the reply. Raises the errors of every transport, and
        `CertificateRejected`.
        """
        route = self._heads.route(request.method, request.url, request.direct)
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
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_S, self._sweep, loop)
        if not host.try_enter():
            await _in_time(host.enter(), deadline, request, "all connections were in use")
            now = loop.time()
        try:
            connection = host.take(now)
            fresh = False
            while True:
                if connection is None:
                    connecting = host.connect(fresh=fresh)
                    connection = await _in_time(
                        connecting, deadline, request, "no connection by then"
                    )
                try:
                    reply = await connection.begin(head, request, deadline, route.bodiless)
                except BaseException as ended:
                    # Cancelled too: an answer that nobody waits for must not serve the next one.
                    connection.abort()
                    # A listener that is short of turns may hang up on a connection that it had just
                    # accepted. Nothing was asked on it: any request may be asked once more.
                    if fresh or not isinstance(ended, Unsent):
                        _raise_unless_repeatable(request, connection, ended)
                    connection, fresh = None, True
                else:
                    host.give(connection, loop.time())
                    return reply
        finally:
            host.leave()

    async def aclose(self) -> None:
        """Close every connection; running exchanges fail."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._opened):
            connection.close("this side closed it")
        for _ in range(CLOSING_TURNS):
            if not self._opened:
                break
            await asyncio.sleep(0)

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._hosts: dict[Address, HostConnections] = {}
        self._opened: set[HttpConnection] = set()
        self._rooms = (ExchangeSlots(self._limit),) if self._limit else ()
        self._sweeper = None

    def _new_host(self, address: Address) -> HostConnections:
        room = (ExchangeSlots(self._limit_per_host),) if self._limit_per_host else ()
        # The host's queue comes first: whoever waits in it takes nobody else's place.
        host = HostConnections(partial(self._dial, address), rooms=room + self._rooms)
        self._hosts[address] = host
        return host

    async def _dial(self, address: Address) -> HttpConnection:
        opened, loop = self._opened, asyncio.get_running_loop()
        connection = await self._dialer.dial(address, lambda: HttpConnection(loop, opened.discard))
        if not connection.lost:
            opened.add(connection)
        return connection

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        now = loop.time()
        # Hosts too: who reads the web speaks to each of them once.
        self._hosts = {at: host for at, host in self._hosts.items() if host.sweep(now)}
        self._sweeper = loop.call_later(IDLE_S / 3, self._sweep, loop) if self._hosts else None


async def _in_time(
    awaited: Awaitable[T], deadline: float, request: HttpRequest, otherwise: str
) -> T:
    """Await `awaited` until the deadline. Raises `DeadlineExceeded` with the text `otherwise`;
    connection errors get the request's URL.
    """
    try:
        async with asyncio.timeout_at(None if deadline == NEVER else deadline):
            return await awaited
    except TimeoutError:
        raise _late(request, otherwise) from None
    except (ConnectionFailed, CertificateRejected) as error:
        error.message = f"{request.url}: {error.message}"
        error.args = (error.message,)
        raise


def _raise_unless_repeatable(
    request: HttpRequest, connection: HttpConnection, failure: BaseException
) -> None:
    if isinstance(failure, Late):
        raise _late(request, str(failure)) from None
    if not isinstance(failure, ExchangeEnded):
        raise failure
    repeatable = request.repeatable or request.method.upper() in IDEMPOTENT
    stale = connection.exchanges > 1 and not connection.heard
    if not (stale and (repeatable or not failure.was_sent)):
        raise ConnectionFailed(f"{request.url}: {failure}", was_sent=failure.was_sent) from None


def _late(request: HttpRequest, detail: str = "") -> DeadlineExceeded:
    addition = f" ({detail})" if detail else ""
    return DeadlineExceeded(f"{request.url}: no answer within {request.timeout_s:.1f} s{addition}")
