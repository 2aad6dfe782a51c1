"""The floor: `asyncio.Protocol` and `httptools`, and nothing that a client must not lack.

No deadlines, no cancelling, no errors, no limits, one host, one request whose bytes are ready.
"""

import asyncio
from typing import cast, final
from urllib.parse import urlsplit

import httptools

from benchmarks.http_client.exchange import BODY, HEADERS


@final
class _Connection(asyncio.Protocol):
    __slots__ = ("_answer", "_body", "_loop", "_parser", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, chunk: bytes) -> None:
        self._body.append(chunk)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        self._answer.set_result(body)

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        """The body of the answer."""
        self._answer: asyncio.Future[bytes] = self._loop.create_future()
        self._transport.write(request)
        return self._answer


@final
class BareClient:
    """Connections to one host, the last one used first."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        fields = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\n{fields}"
        self._request = f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY
        self._idle: list[_Connection] = []

    async def post(self) -> int:
        """The length of the answer."""
        if self._idle:
            connection = self._idle.pop()
        else:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(lambda: _Connection(loop), *self._address)
        body = await connection.ask(self._request)
        self._idle.append(connection)
        return len(body)
