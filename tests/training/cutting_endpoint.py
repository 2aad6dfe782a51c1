"""An endpoint that reads each request for a chat completion, and cuts its connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

MODELS = b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'


@dataclass
class CuttingEndpoint:
    """`is_alive`: whether it answers what is no chat completion."""

    is_alive: bool = True
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    """The body of each request for a chat completion, in the order of their arrival."""

    serving: dict[asyncio.StreamWriter, "asyncio.Task[None] | None"] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving[writer] = asyncio.current_task()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(size or 0))
                if head.startswith(b"post /v1/chat/completions"):
                    self.bodies.append(body)
                elif self.is_alive:
                    length = f"content-length: {len(MODELS)}\r\n\r\n".encode()
                    writer.write(b"HTTP/1.1 200 OK\r\n" + length + MODELS)
                    await writer.drain()
                    continue
                break
        writer.transport.abort()


@asynccontextmanager
async def cutting_endpoint(*, is_alive: bool = True) -> AsyncIterator[CuttingEndpoint]:
    """One that runs, on a real socket."""
    endpoint = CuttingEndpoint(is_alive)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.close()
        for writer in endpoint.serving:
            writer.transport.abort()
        await asyncio.gather(*filter(None, endpoint.serving.values()))
