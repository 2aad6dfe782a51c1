"""Servers to call, in this process and over real sockets, and peers that misbehave."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel
from starlette.requests import Request

from palestra.errors import RowIdentity
from palestra.fleet.sockets import listen, serving
from palestra.schema import (
    Response,
    ResponseCreateParams,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    WireModel,
)
from palestra.server import (
    ModelServer,
    ModelServerConfig,
    ResourcesServer,
    ResourcesServerConfig,
    Server,
    Session,
    tool,
)
from palestra.transport import (
    CallContext,
    HttpClient,
    RetryPolicy,
    ServerClient,
    Target,
    current_call,
)

IN_PROCESS, HTTP = "in-process", "http"
PLACEMENTS = (IN_PROCESS, HTTP)
IMPATIENT = RetryPolicy(first_wait_s=0.01, give_up_after_s=0.1, busy=frozenset(), server_errors=1)
ROW = RowIdentity(task=7, rollout=2, attempt=3, agent="agent", run="a run")
ASKED = CallContext(row=ROW)
PARAMS: dict[str, Any] = {"input": "?"}
ANSWER: dict[str, Any] = {"id": "r", "created_at": 0, "model": "m", "output": []}
TASK: dict[str, Any] = {"responses_create_params": PARAMS}
TURN: dict[str, Any] = {**TASK, "response": ANSWER}
ENVIRONMENT, MODEL, UPSTREAM = "environment", "policy", "upstream"


class Counter(ResourcesServer):
    """Counts in its session, and says which sessions called it."""

    async def seed_session(self, body: WireModel, session: Session) -> SeedSessionResponse:
        session.state["count"] = (body.model_extra or {}).get("start", 0)
        return SeedSessionResponse()

    @tool
    async def add(self, amount: int, session: Session) -> str:
        """Add to the count."""
        session.state["count"] += amount
        return str(session.state["count"])

    @tool
    async def broken(self) -> str:
        """Fail."""
        raise ZeroDivisionError("by zero")

    @tool
    async def ask(self) -> str:
        """Ask the model, which may fail."""
        await self.server_client.peer(MODEL).call("/v1/responses", PARAMS, Response)
        return "asked"

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        row = current_call().row
        return self.reply(
            body,
            float(session.state.get("count", -1)),
            session=session.id,
            task=row.task if row else None,
        )


class Judging(ResourcesServer):
    """Verifies by asking the model."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        await self.server_client.peer(MODEL).call("/v1/responses", PARAMS, Response)
        return self.reply(body, 1.0)


class Relay(ModelServer):
    """Asks the upstream; says in its answer for which row it was asked."""

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        del body, session
        reply = await self.server_client.peer(UPSTREAM).call("/v1/responses", PARAMS, Response)
        return reply.model_copy(update={"user": repr(current_call().row)})


class Move(BaseModel):
    cell: int


class Plain(ResourcesServer):
    """Routes of its own, beside the protocol's."""

    def setup_webserver(self) -> Any:
        app = super().setup_webserver()

        @app.get("/echo/{word}")
        async def echo(word: str, request: Request) -> dict[str, Any]:
            return {"word": word, "query": sorted(request.query_params.multi_items())}

        @app.post("/remember")
        async def remember(request: Request) -> dict[str, Any]:
            request.session["calls"] = request.session.get("calls", 0) + 1
            return {"calls": request.session["calls"]}

        @app.post("/occupied")
        async def occupied() -> None:
            raise HTTPException(409, {"cell": 3})

        @app.post("/place")
        async def place(move: Move) -> str:
            return str(move.cell)

        @app.post("/fail")
        async def fail() -> None:
            raise KeyError("no such thing")

        return app

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 0.0)


def type_of(server: type[Server]) -> str:
    return "responses_api_models" if issubclass(server, ModelServer) else "resources_servers"


@asynccontextmanager
async def running(
    placement: str,
    servers: dict[str, type[Server]],
    *,
    upstream: str = "",
    debug: bool = False,
    policy: RetryPolicy = IMPATIENT,
) -> AsyncIterator[ServerClient]:
    """A client of the servers, each in its own listener when `placement` is HTTP."""
    targets: dict[str, Target] = {}
    if upstream:
        targets[UPSTREAM] = Target(UPSTREAM, "responses_api_models", (upstream,))
    http = HttpClient()
    client = ServerClient(targets, http, debug=debug, policy=policy)
    async with AsyncExitStack() as stack:
        for name, cls in servers.items():
            config_cls = (
                ModelServerConfig if issubclass(cls, ModelServer) else ResourcesServerConfig
            )
            server = cls(config=config_cls(name=name), server_client=client)
            if placement == IN_PROCESS:
                targets[name] = Target(name, type_of(cls), local=server)
                continue
            sock = listen("127.0.0.1", 0)
            await stack.enter_async_context(serving(server.asgi_app(), sock))
            targets[name] = Target(name, type_of(cls), (url_of(sock),))
        stack.push_async_callback(http.aclose)
        yield client


def url_of(sock: socket.socket) -> str:
    return f"http://127.0.0.1:{sock.getsockname()[1]}"


def refusing_url() -> str:
    """An address where nothing listens: just given back by the kernel."""
    sock = listen("127.0.0.1", 0)
    url = url_of(sock)
    sock.close()
    return url


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    handle: Handler, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A real listener that does with each connection what `handle` says; yields its port.

    Nothing of it is left afterwards: a descriptor that a late turn closes may be another's by then.
    """
    open_writers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_writers[task] = writer
        try:
            await handle(reader, writer)
        finally:
            writer.close()
            del open_writers[task]

    server = await asyncio.start_server(once, host, port, backlog=2048, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await _turns(3)  # a connection that was accepted just now is closed by its `once`
        left = dict(open_writers)
        for task, writer in left.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await _turns(3)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def misbehaving(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Such a listener on this machine; yields its URL."""
    async with listening(handle, tls=tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of one request; its body is read and dropped."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.split(b":")[1]))
    return head


def answering(*answers: bytes) -> Handler:
    """Give these whole HTTP answers, one per connection, the last one again and again."""
    left: Iterable[bytes] = list(answers)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(left, list)
        await read_request(reader)
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return handle


def answer(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
