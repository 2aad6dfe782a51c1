"""Serving an ASGI app on an already listening socket, on the running event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn

from palestra.fleet.sockets import BACKLOG
from palestra.transport import ASGIApp


class _QuietServer(uvicorn.Server):
    """uvicorn without its own signal handlers and clock: the fleet decides when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on `sock` while the body runs; then close, in-flight requests cut after 2 s.

    What the body raises passes through as it is, after the same orderly end.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        # Longer than our client keeps a connection, so that the client is the one to close it.
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        ws="none",
        backlog=BACKLOG,
        server_header=False,
        # Nothing here asks where a proxy had it from, and reading that costs every request.
        proxy_headers=False,
        date_header=False,
    )
    server = _QuietServer(config)
    # No task group: it would cut the listener off when the body raises, its socket left open.
    listener = asyncio.create_task(server.serve(sockets=[sock]), name="listener")
    try:
        yield
    finally:
        server.stopping.set()
        try:
            await listener
        finally:
            sock.close()
