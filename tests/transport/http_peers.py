"""Both transports on both event loops, and peers that are scripted byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import uvloop
from transport_worlds import Handler, misbehaving, read_request

from palestra.transport import (
    AiohttpTransport,
    HttpReply,
    HttpRequest,
    HttpTransport,
    PlainTransport,
)

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

PATIENCE_S = 20.0
"""No scenario takes longer, however busy the machine is."""


@dataclass(frozen=True)
class Way:
    """A transport and the event loop under it."""

    make: Callable[..., HttpTransport]
    loop: Any

    def run(self, scenario: Awaitable[T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await scenario

        return self.loop.run(bounded())


WAYS = [
    pytest.param(Way(PlainTransport, asyncio), id="plain"),
    pytest.param(Way(PlainTransport, uvloop), id="plain-uvloop"),
    pytest.param(Way(AiohttpTransport, asyncio), id="aiohttp"),
    pytest.param(Way(AiohttpTransport, uvloop), id="aiohttp-uvloop"),
]
PLAIN_WAYS = WAYS[:2]


@asynccontextmanager
async def opened(way: Way, **limits: int) -> AsyncIterator[HttpTransport]:
    http = way.make(**limits)
    try:
        yield http
    finally:
        await http.aclose()


def exchange(way: Way, handle: Handler, path: str = "", **fields: Any) -> HttpReply:
    """One request to a peer that does what `handle` says."""

    async def scenario() -> HttpReply:
        async with misbehaving(handle) as url, opened(way) as http:
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


@asynccontextmanager
async def listening(handle: Handler, host: str, port: int = 0) -> AsyncIterator[int]:
    """As `misbehaving`, at an address of the test's and for a crowd; yields the port."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(once, host, port, backlog=2048)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def plain(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    """An answer after which the connection stays open."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
