"""A fake model endpoint that answers every request after so many seconds: `... SECONDS`.

In a process of its own; says its URL on the first line, then, for each line it reads, how many
requests it saw and how many waited at once at most.
"""

import asyncio
import sys
from typing import cast, final

import httptools
import orjson
import uvloop

ANSWER = orjson.dumps(
    {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Let me see. " * 40 + "\\boxed{A}"},
            }
        ],
        "usage": {"prompt_tokens": 60, "completion_tokens": 130, "total_tokens": 190},
    }
)
MODELS = orjson.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]})


def _http(body: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


REPLY, LISTED = _http(ANSWER), _http(MODELS)


class _Counts:
    requests = 0
    waiting = 0
    most_waiting = 0


@final
class _Connection(asyncio.Protocol):
    def __init__(self, counts: _Counts, latency_s: float) -> None:
        self._counts = counts
        self._latency_s = latency_s
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = b""

    def on_url(self, url: bytes) -> None:
        self._path = url

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by behaviour, not by class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        # Whatever a server asks about its endpoint is none of the rollouts' requests.
        if self._parser.get_method() == b"GET" or not self._path.endswith(b"/chat/completions"):
            assert self._transport is not None
            self._transport.write(LISTED)
            return
        counts = self._counts
        counts.requests += 1
        counts.waiting += 1
        counts.most_waiting = max(counts.most_waiting, counts.waiting)
        if self._latency_s:
            asyncio.get_running_loop().call_later(self._latency_s, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        assert self._transport is not None
        self._counts.waiting -= 1
        self._transport.write(REPLY)


async def main() -> None:
    """Serve until standard input ends."""
    counts = _Counts()
    latency_s = float(sys.argv[1])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(counts, latency_s), "127.0.0.1", 0, backlog=8192
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(counts.requests, counts.most_waiting, flush=True)


if __name__ == "__main__":
    uvloop.run(main())
