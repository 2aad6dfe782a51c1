"""Endpoints are reached past the framework, but never past what an author put into it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from author_servers import ask, server_of, turn
from palestra.errors import RowError
from palestra.schema import VerifyRequest, VerifyResponse, encode_json
from palestra.server import ResourcesServer
from palestra.server.direct import Direct
from palestra.transport import HttpReply


class Plain(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def reply_of(change: Callable[[FastAPI], Any], body: Any = None) -> HttpReply:
    """What `/verify` answers once the author changed the app that way."""

    class Changed(Plain):
        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            change(app)
            return app

    return ask(server_of(Changed), "/verify", turn() if body is None else body)


def scope_of(method: str, path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [],
        "session": {"session_id": "s"},
        "query_string": b"",
    }


async def went(scope: dict[str, Any], *messages: dict[str, Any]) -> list[Any]:
    """What is sent in answer to messages of a caller; `scope` has the app if it came by there."""
    server = server_of(Plain)
    verify = server.typed_endpoint("/verify")
    assert verify is not None
    app = Direct(server.setup_webserver(), [verify])
    received, sent = iter(messages), []

    async def receive() -> Any:
        return next(received)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def test_an_endpoint_is_reached_without_the_framework() -> None:
    scope, raw = scope_of("POST", "/verify"), encode_json(turn())
    parts = [{"type": "http.request", "body": raw[:9], "more_body": True},
             {"type": "http.request", "body": raw[9:]}]  # fmt: skip

    start, body = asyncio.run(went(scope, *parts))

    assert (start["status"], b'"reward":1.0' in body["body"]) == (200, True)
    assert "app" not in scope


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/verify"), ("POST", "/x")])
def test_all_else_is_the_frameworks(method: str, path: str) -> None:
    scope = scope_of(method, path)

    asyncio.run(went(scope, {"type": "http.request", "body": b""}))

    assert "app" in scope


def test_a_caller_that_leaves_amid_its_body_is_no_request() -> None:
    with pytest.raises(ClientDisconnect):
        asyncio.run(went(scope_of("POST", "/verify"), {"type": "http.disconnect"}))


def test_the_authors_middleware_sees_every_request() -> None:
    def change(app: FastAPI) -> None:
        @app.middleware("http")
        async def mark(request: Any, call_next: Any) -> Any:
            answer = await call_next(request)
            answer.headers["x-mark"] = "seen"
            return answer

    assert reply_of(change).headers["x-mark"] == "seen"


def test_the_authors_handler_of_refusals_is_asked() -> None:
    def change(app: FastAPI) -> None:
        @app.exception_handler(RowError)
        async def sorry(_request: Any, _error: RowError) -> Any:
            return PlainTextResponse("sorry", 422)

    assert reply_of(change, b"{").body == b"sorry"


def test_a_route_of_the_authors_before_ours_is_taken() -> None:
    async def own(_request: Any) -> Any:
        return PlainTextResponse("own")

    first = Route("/verify", own, methods=["POST"])

    assert reply_of(lambda app: app.router.routes.insert(0, first)).body == b"own"


def test_a_limit_of_the_authors_holds() -> None:
    class Small(Plain):
        def setup_webserver(self) -> FastAPI:
            return FastAPI(routes=super().setup_webserver().routes, max_body_size=9)

    assert ask(server_of(Small), "/verify", turn()).status == 413
