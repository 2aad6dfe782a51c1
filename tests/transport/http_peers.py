"""The client on both event loops, with and without TLS, and peers scripted byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import uvloop
from tls_authority import server_tls
from transport_worlds import Handler, misbehaving, read_request

from palestra.transport import (
    HttpClient,
    HttpReply,
    HttpRequest,
)

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

PATIENCE_S = 20.0
"""No scenario takes longer, however busy the machine is."""


@dataclass(frozen=True)
class Way:
    """The event loop under the client, and whether what it speaks to has TLS."""

    loop: Any
    tls: bool = False

    def run(self, scenario: Awaitable[T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await scenario

        return self.loop.run(bounded())

    def misbehaving(self, handle: Handler) -> AbstractAsyncContextManager[str]:
        """A peer of this way that does what `handle` says; yields its URL."""
        return misbehaving(handle, self.server_tls)

    @property
    def server_tls(self) -> ssl.SSLContext | None:
        return server_tls() if self.tls else None

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"


WAYS = [
    pytest.param(Way(asyncio), id="plain"),
    pytest.param(Way(uvloop), id="plain-uvloop"),
    pytest.param(Way(asyncio, tls=True), id="tls"),
    pytest.param(Way(uvloop, tls=True), id="tls-uvloop"),
]
both_loops = pytest.mark.parametrize("way", WAYS[:2])


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[HttpClient]:
    http = HttpClient(**settings)
    try:
        yield http
    finally:
        await http.aclose()


def exchange(way: Way, handle: Handler, path: str = "", **fields: Any) -> HttpReply:
    """One request to a peer that does what `handle` says."""

    async def scenario() -> HttpReply:
        async with way.misbehaving(handle) as url, opened() as http:
            return await http.send(request(url + path, **fields))

    return way.run(scenario())


def request(url: str, method: str = "POST", **fields: Any) -> HttpRequest:
    if method == "POST":
        fields.setdefault("body", b"{}")
    return HttpRequest(method, url, **fields)


@dataclass
class Script:
    """Answers its connections' requests from a list, one after the other, and keeps the heads.

    An answer is bytes, or None to hang up without one. Connections stay open until the script is
    at its end or says None.
    """

    answers: list[bytes | None]
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    one_per_connection: bool = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                self.heads.append(await read_request(reader))
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            answer = self.answers.pop(0)
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()
            if self.one_per_connection:
                return


def plain(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    """An answer after which the connection stays open."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
