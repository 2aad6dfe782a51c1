"""How a connection comes about: directly or through a proxy, with TLS or without."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from palestra.transport.h1.connection import HttpConnection, reason
from palestra.transport.h1.proxies import Proxy
from palestra.transport.http import CertificateRejected, ConnectionFailed

CONNECT_S: Final = 30.0
"""How long one connect may take. A SYN that is dropped is sent again after 1, 3, 7 and 15 s."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name that may be connected to, in order. Raises OSError for none."""


class Address(NamedTuple):
    """What connections are kept for: they serve requests to the same one."""

    host: str
    port: int
    tls: bool = False
    proxy: Proxy | None = None


class Dialer:
    """Opens connections; `resolve` replaces the system's way from names to addresses."""

    def __init__(self, resolve: Resolve | None) -> None:
        self._resolve = resolve
        self._context: ssl.SSLContext | None = None

    async def dial(self, address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        """Raises `ConnectionFailed`; `CertificateRejected` when it is another who answers."""
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
                why, hint = reason(error), "is the server running, and is this its address?"
            if isinstance(error, ssl.SSLError):
                hint = "does it speak HTTPS? then its URL is right"
            if address.proxy is not None:
                why = f"by way of the proxy {address.proxy.host}:{address.proxy.port}: {why}"
                hint = "HTTP_PROXY and HTTPS_PROXY name the proxy, NO_PROXY what needs none"
            raise ConnectionFailed(why, sent=False, hint=hint) from error

    async def _open(self, address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        loop = asyncio.get_running_loop()
        proxy = address.proxy
        context, name = (self._tls(), address.host) if address.tls else (None, None)
        if proxy is not None and context is not None:
            return await _secured(await _tunnel(address, proxy), make(), context, address.host)
        host, port = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)
        failure = OSError("the name has no address")
        for candidate in [host] if self._resolve is None else await self._resolve(host, port):
            try:
                _, connection = await loop.create_connection(
                    make, candidate, port, ssl=context, server_hostname=name
                )
            except OSError as error:
                failure = error
            else:
                return connection
        raise failure

    def _tls(self) -> ssl.SSLContext:
        # The authorities are the system's, or those in SSL_CERT_FILE; reading them takes 20 ms.
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


async def _tunnel(address: Address, proxy: Proxy) -> asyncio.Transport:
    """A connection through the proxy, on which nothing has been said to its other end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.create_connection(
        lambda: asyncio.StreamReaderProtocol(reader), proxy.host, proxy.port
    )
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
    """The connection, with TLS on an open transport."""
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(transport, connection, context, server_hostname=name)
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(cast("asyncio.Transport", secured))
    return connection
