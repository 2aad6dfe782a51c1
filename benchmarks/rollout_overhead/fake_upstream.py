"""A fake model endpoint in a process of its own, as fast as Python can answer.

It asks for a tool when no tool has answered yet, and else gives the final message. Says its URL
on the first line; then, for each line it reads, how many requests it saw and how many bytes
their bodies and its answers had, since the last time it was asked.
"""

import asyncio
import sys
from typing import cast, final

import httptools
import uvloop

from benchmarks.rollout_overhead.payloads import (
    FINAL_COMPLETION,
    TOOL_ANSWERED,
    TOOL_CALL_COMPLETION,
)


def http_answer(body: bytes) -> bytes:
    """`body` as a whole answer."""
    head = (
        "HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 12:00:00 GMT\r\nserver: fake\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_TOOL_CALL = http_answer(TOOL_CALL_COMPLETION)
_FINAL = http_answer(FINAL_COMPLETION)


class _Counts:
    requests = 0
    bytes_in = 0
    bytes_out = 0


@final
class _Connection(asyncio.Protocol):
    def __init__(self, counts: _Counts) -> None:
        self._counts = counts
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by behaviour, not by class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, chunk: bytes) -> None:
        self._body += chunk

    def on_message_complete(self) -> None:
        assert self._transport is not None
        body, self._body = self._body, b""
        answer = _FINAL if TOOL_ANSWERED in body else _TOOL_CALL
        self._transport.write(answer)
        self._counts.requests += 1
        self._counts.bytes_in += len(body)
        self._counts.bytes_out += len(answer)


async def main() -> None:
    """Serve until standard input ends."""
    counts = _Counts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(counts), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(counts.requests, counts.bytes_in, counts.bytes_out, flush=True)
        counts.requests = counts.bytes_in = counts.bytes_out = 0


if __name__ == "__main__":
    uvloop.run(main())
