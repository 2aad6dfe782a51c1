"""An endpoint that answers after 5 s, to any number of requests: `python -m ... SECONDS`.

Says its URL; then, for each line it reads, how many requests and connections it saw, and how
many requests were open at once at most.
"""

import asyncio
import sys
from typing import cast, final

import httptools
import uvloop

from benchmarks.rollout_overhead.fake_upstream import http_answer
from benchmarks.rollout_overhead.payloads import FINAL_COMPLETION
from palestra.system import raise_descriptor_limit

BACKLOG = 4096
_ANSWER = http_answer(FINAL_COMPLETION)


class _Counts:
    requests = connections = open = most_open = 0


@final
class _Connection(asyncio.Protocol):
    def __init__(self, counts: _Counts, seconds: float) -> None:
        self._counts = counts
        self._seconds = seconds
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        counts.connections += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        counts = self._counts
        counts.requests += 1
        counts.open += 1
        counts.most_open = max(counts.most_open, counts.open)
        self._loop.call_later(self._seconds, self._answer)

    def _answer(self) -> None:
        self._counts.open -= 1
        if not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def main(seconds: float) -> None:
    """Serve until standard input ends."""
    raise_descriptor_limit()
    counts = _Counts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(counts, seconds), "127.0.0.1", 0, backlog=BACKLOG
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(counts.requests, counts.connections, counts.most_open, flush=True)


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1])))
