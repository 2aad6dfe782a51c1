"""Calls a server in this process, without a socket.

A server implements `LocalServer` for this. Typed calls pass objects. All other calls go directly
through the server's ASGI app (an HTTP client's in-memory transport is a hundred times slower).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote, urlencode

from palestra.errors import InfraError
from palestra.transport.http import HttpReply, cookie_header, parse_set_cookies

Scope = MutableMapping[str, Any]
ASGIApp = Callable[
    [Scope, Callable[[], Awaitable[MutableMapping[str, Any]]], Callable[..., Awaitable[None]]],
    Awaitable[None],
]

IN_PROCESS = "in-process"
"""Replaces the URL of a server in this process."""
IN_PROCESS_CLIENT = (IN_PROCESS, 0)
"""The ASGI `client` of a request that came without a socket."""

SESSION_SCOPE_KEY = "palestra.session_id"
"""The ASGI scope key where an in-process caller puts the session id, instead of a signed cookie."""


class LocalEndpoint(Protocol):
    """One endpoint that takes and returns objects."""

    @property
    def is_tool(self) -> bool:
        """Whether the endpoint is a tool: the body is its arguments, and the result is text for the
        model.
        """

    def invoke(self, body: Any, /, *, session_id: str) -> Awaitable[Any]:
        """Validate `body` unless it already has the endpoint's type, and run the method.

        The result is an object, or the JSON of one as bytes; a tool's is a text.
        """


class LocalServer(Protocol):
    """A server in this process."""

    def typed_endpoint(self, path: str, /) -> LocalEndpoint | None:
        """Return the endpoint at `path`; None when it cannot be called with objects."""

    def asgi_app(self) -> ASGIApp:
        """Return the server's whole ASGI app."""


@dataclass(frozen=True, slots=True)
class Target:
    """The location of one server instance. `urls` has one entry per worker process."""

    name: str
    server_type: str
    urls: tuple[str, ...] = ()
    local: LocalServer | None = None


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to a server. `stateless`: it may be sent again even if the server may have
    processed it.
    """

    method: str
    path: str
    body: bytes = b""
    cookies: Mapping[str, str] | None = None
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    session_id: str | None = None
    stateless: bool = False


def with_query(path: str, params: Mapping[str, str] | None) -> str:
    """Return `path` with `params` added to its query."""
    if not params:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(params)}"


async def call_asgi(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    cookies: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    session_id: str | None = None,
) -> HttpReply:
    """Send one request to `app` and return the reply. Raises `InfraError`: the app ended without a
    reply.
    """
    lines = {"content-type": "application/json", **(headers or {})}
    if cookies:
        lines["cookie"] = cookie_header(cookies)
    scope = _scope(method, with_query(path, params), lines)
    if session_id is not None:
        scope[SESSION_SCOPE_KEY] = session_id
    exchange = _AppExchange(body)
    await app(scope, exchange.receive, exchange.send)
    if exchange.status == 0:
        raise InfraError(f"{method} {path}: the app ended without an answer")
    return exchange.reply()


def _scope(method: str, path: str, headers: Mapping[str, str]) -> Scope:
    raw_path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in headers.items()
        ],
        "client": IN_PROCESS_CLIENT,
        "server": IN_PROCESS_CLIENT,
        "state": {},
    }


class _AppExchange:
    """One request to an app in this process, and the app's reply."""

    __slots__ = ("_body", "_chunks", "_headers", "_never", "_request_sent", "status")

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self._body = body
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._request_sent = False
        self._never = asyncio.get_running_loop().create_future()

    async def receive(self) -> MutableMapping[str, Any]:
        if self._request_sent:
            # Whoever asks for a second message waits for our disconnection: we stay.
            await self._never
        self._request_sent = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._headers.extend(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self._chunks.append(message.get("body", b""))

    def reply(self) -> HttpReply:
        cookies = [v.decode("latin-1") for n, v in self._headers if n.lower() == b"set-cookie"]
        return HttpReply(
            status=self.status,
            body=b"".join(self._chunks),
            headers={n.decode("latin-1").lower(): v.decode("latin-1") for n, v in self._headers},
            cookies=parse_set_cookies(cookies) if cookies else {},
        )
