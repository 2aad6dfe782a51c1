"""What the baseline's servers share: the app with its middlewares, the client, the main."""

import importlib
import os
import socket
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import orjson
import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.middleware.sessions import SessionMiddleware

Next = Callable[[Request], Awaitable[Response]]


def make_app(name: str) -> FastAPI:
    """An app with sessions, an exception middleware and a session id middleware."""
    app = FastAPI(title=name)

    @app.middleware("http")
    async def remember_session(request: Request, call_next: Next) -> Response:
        if "session_id" not in request.session:
            request.session["session_id"] = str(uuid.uuid4())
        return await call_next(request)

    @app.middleware("http")
    async def catch_exceptions(request: Request, call_next: Next) -> Response:
        try:
            return await call_next(request)
        except Exception as error:
            return JSONResponse({"detail": repr(error)}, status_code=500)

    app.add_middleware(SessionMiddleware, secret_key=name, session_cookie=name)
    return app


class Client:
    """aiohttp without a jar: the cookies of a rollout are passed along by hand."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: Any, cookies: Mapping[str, str] | None = None
    ) -> tuple[bytes, dict[str, str]]:
        """The answer's body, and the cookies of the conversation so far."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=102_400, limit_per_host=1024),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_unset=True)
        headers = {"content-type": "application/json"}
        data = orjson.dumps(body)
        async with self._session.post(url, data=data, headers=headers, cookies=cookies) as reply:
            reply.raise_for_status()
            set_here = {name: morsel.value for name, morsel in reply.cookies.items()}
            return await reply.read(), {**(cookies or {}), **set_here}

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()


def bodies(name: str) -> Any:
    """The types of the bodies: the module `wire` or `vendor`."""
    return importlib.import_module(f"benchmarks.rollout_overhead.seven_hops.{name}")


def parse(kind: type[BaseModel], raw: bytes) -> Any:
    """A typed body of an answer."""
    return kind.model_validate(orjson.loads(raw))


def serve(build: Callable[[str], FastAPI]) -> None:
    """Serve the app that `build` makes of its own URL, until standard input ends."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(4096)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    config = uvicorn.Config(
        build(url),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=600,
    )
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    print(url, flush=True)
    uvloop.run(uvicorn.Server(config).serve(sockets=[sock]))


def _stop_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
