"""Opens a connection: directly or through a proxy, with TLS or without."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from palestra.transport.h1.connection import HttpConnection, reason
from palestra.transport.h1.proxies import Proxy
from palestra.transport.http import CertificateRejected, ConnectionFailed

CONNECT_S: Final = 30.0
"""The timeout in seconds of one connect. A lost SYN packet is sent again after 1, 3, 7 and 15 s."""
HEAD_START_S: Final = 0.25
"""Seconds before the next address of a name is tried too, if the first has not answered (RFC 8305).
"""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name that may be connected to, in order. Raises OSError: there are
none."""


Opened = TypeVar("Opened")


class Address(NamedTuple):
    """The destination of a connection. Requests to the same address can share connections."""

    host: str
    port: int
    tls: bool = False
    proxy: Proxy | None = None


class Dialer:
    """Opens connections. `resolve` replaces the system's name resolution."""

    def __init__(self, resolve: Resolve | None) -> None:
        self._resolve = resolve
        self._context: ssl.SSLContext | None = None

    async def dial(self, address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        """Open a connection to `address`. Raises `ConnectionFailed`, or `CertificateRejected`: the
        server's certificate cannot be verified.
        """
        try:
            async with asyncio.timeout(CONNECT_S) as limit:
                return await self._open(address, make)
        except ssl.SSLCertVerificationError as error:
            problem = f"certificate verify failed: {error.verify_message}"
            raise CertificateRejected(problem) from error
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            # Our own timeout is an OSError too, as is the kernel's; ValueError is a host name
            # that no DNS could have, the others are proxies that do not answer as proxies.
            if limit.expired():
                why, hint = f"no connection within {CONNECT_S:.0f} s", ""
            else:
                why, hint = (
                    reason(error),
                    ("check that the server is running and that this is its address"),
                )
            if isinstance(error, ssl.SSLError):
                hint = "check that the server uses HTTPS, or write http:// in its URL"
            if address.proxy is not None:
                why = f"through the proxy {address.proxy.host}:{address.proxy.port}: {why}"
                hint = "check HTTP_PROXY and HTTPS_PROXY; list hosts that need no proxy in NO_PROXY"
            raise ConnectionFailed(why, was_sent=False, hint=hint) from error

    async def _open(self, address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        loop = asyncio.get_running_loop()
        proxy = address.proxy
        context, name = (self._tls(), address.host) if address.tls else (None, None)
        if proxy is not None and context is not None:
            return await _secured(await _tunnel(address, proxy), make(), context, address.host)
        host, port = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)

        async def open_to(candidate: str) -> HttpConnection:
            _, connection = await loop.create_connection(
                make, candidate, port, ssl=context, server_hostname=name
            )
            return connection

        addresses = await (self._resolve or addresses_of)(host, port)
        return await _first_open(addresses, open_to, HttpConnection.abort)

    def _tls(self) -> ssl.SSLContext:
        # The authorities are the system's, or those in SSL_CERT_FILE; reading them takes 20 ms.
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


async def addresses_of(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, in the system's order. Raises OSError: there are none."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return [host]
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


async def _first_open(
    addresses: Sequence[str],
    open_to: Callable[[str], Awaitable[Opened]],
    abort: Callable[[Opened], None],
) -> Opened:
    """Return the first connection that opens, to any of the addresses. Raises the last failure when
    none does.

    An address that does not answer delays the next one by only `HEAD_START_S`.
    """
    if len(addresses) == 1:
        return await open_to(addresses[0])
    untried = deque(addresses)
    attempts: list[asyncio.Future[Opened]] = []
    failure: BaseException = OSError("the host name has no address")
    try:
        while untried or attempts:
            if untried:
                attempts.append(asyncio.ensure_future(open_to(untried.popleft())))
            await asyncio.wait(
                attempts,
                timeout=HEAD_START_S if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in [attempt for attempt in attempts if attempt.done()]:
                attempts.remove(attempt)
                if (problem := attempt.exception()) is None:
                    return attempt.result()
                failure = problem
        raise failure
    finally:
        for attempt in attempts:
            attempt.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if not isinstance(late, BaseException):
                abort(late)


async def _tunnel(address: Address, proxy: Proxy) -> asyncio.Transport:
    """Open a tunnel through the proxy to `address`. No data has been sent through it yet."""
    loop = asyncio.get_running_loop()

    async def open_to(candidate: str) -> tuple[asyncio.Transport, asyncio.StreamReader]:
        reader = asyncio.StreamReader()
        transport, _ = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader), candidate, proxy.port
        )
        return transport, reader

    addresses = await addresses_of(proxy.host, proxy.port)
    transport, reader = await _first_open(addresses, open_to, lambda opened: opened[0].abort())
    try:
        host = f"[{address.host}]" if ":" in address.host else address.host
        target = f"{host}:{address.port}".encode()
        transport.write(
            b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (target, target, proxy.authorization)
        )
        status_line = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0]
        if not status_line.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2")):
            raise OSError(f"it answers CONNECT with {status_line[:100].decode('latin-1')!r}")
    except BaseException:
        transport.abort()
        raise
    return transport


async def _secured(
    transport: asyncio.Transport, connection: HttpConnection, context: ssl.SSLContext, name: str
) -> HttpConnection:
    """Start TLS on an open transport, and return the connection."""
    loop = asyncio.get_running_loop()
    # What comes in one piece with the end of the handshake reaches the connection before its
    # transport does: until then it closes the one below.
    connection.connection_made(transport)
    try:
        secured = await loop.start_tls(transport, connection, context, server_hostname=name)
        if not connection.usable:
            raise ConnectionResetError("the server closed the connection after the TLS handshake")
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(cast("asyncio.Transport", secured))
    return connection
