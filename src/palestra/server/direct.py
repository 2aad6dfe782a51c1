"""The short way to a server's own endpoints, past the framework's middleware and routing.

Those cost as much as a small answer, and have nothing to do for a POST to one of ours. Whatever
an author put into the app still sees every request: middleware, exception handlers, limits, or a
route of their own at the same path, and there is no short way.
"""

from collections.abc import Iterable
from typing import Any, final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from palestra.server.caller import Message, Receive
from palestra.server.endpoints import Endpoint
from palestra.server.sessions import SESSION_ID_KEY
from palestra.transport import ASGIApp

_HANDLED = {HTTPException, RequestValidationError, WebSocketRequestValidationError}
"""What every app has a handler for; no endpoint of ours raises it."""


@final
class Direct:
    """An app whose `endpoints` are reached directly, as far as nothing stands before them."""

    def __init__(self, app: FastAPI, endpoints: Iterable[Endpoint]) -> None:
        self._app: ASGIApp = app
        self._endpoints = {
            endpoint.path: endpoint
            for endpoint in endpoints
            if _is_bare(app) and not endpoint.wants_request and _comes_first(app, endpoint)
        }

    async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                body = await _body(receive)
                answer = await endpoint.answer(body, scope["session"][SESSION_ID_KEY])
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_bare(app: FastAPI) -> bool:
    """Whether nothing of the author's is to see every request."""
    return (
        type(app) is FastAPI
        and not app.user_middleware
        and not app.root_path
        and app.max_body_size is None
        and app.exception_handlers.keys() <= _HANDLED
    )


def _comes_first(app: FastAPI, endpoint: Endpoint) -> bool:
    """Whether the app would answer a POST to that path with the endpoint."""
    scope = {"type": "http", "method": "POST", "path": endpoint.path, "headers": []}
    for route in app.routes:
        match, _ = route.matches(scope)
        if match is Match.FULL:
            return getattr(route, "endpoint", None) == endpoint.__call__
    return False


async def _body(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
