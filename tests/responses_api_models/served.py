"""A server of ours behind a real socket, for clients that are not ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from palestra.server import Server


@asynccontextmanager
async def served(server: Server) -> AsyncIterator[str]:
    """Serve until the block ends; yields the base URL, without a path."""
    config = uvicorn.Config(server.asgi_app(), port=0, log_level="error", lifespan="off")
    http = uvicorn.Server(config)
    running = asyncio.create_task(http.serve())
    while not http.started:
        await asyncio.sleep(0)
        if running.done():
            running.result()
    try:
        port = http.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        http.should_exit = True
        await running
