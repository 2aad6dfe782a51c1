"""A short path to a server's own endpoints, without the framework's middleware and routing.

Middleware and routing take as long as a small request itself, and do nothing for a POST to an
endpoint of Palestra. The short path is not used when an author adds middleware, exception handlers,
limits, or a route at the same path: those still see every request.
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
"""Exceptions that every app has a handler for; none of Palestra's endpoints raises them."""


@final
class Direct:
    """An app that calls `endpoints` directly, unless an author's middleware or route comes first."""

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
    """Whether the app has no middleware, handlers or limits of the author that must see every
    request.
    """
    return (
        type(app) is FastAPI
        and not app.user_middleware
        and not app.root_path
        and app.max_body_size is None
        and app.exception_handlers.keys() <= _HANDLED
    )


def _comes_first(app: FastAPI, endpoint: Endpoint) -> bool:
    """Whether the app's routing would send a POST to this endpoint's path to this endpoint."""
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
