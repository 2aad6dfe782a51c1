"""`/mcp`: an environment's tools for clients that speak MCP, bound to the rollout's session.

Streamable HTTP with the smallest server side that the protocol allows: every request is answered
with one JSON body, and the server sends no stream. Methods: `initialize`, `ping`, `tools/list` and
`tools/call`. The MCP library is not used: for these four methods it would add its own sessions, a
task group per process and a second of imports, and it does not support Palestra's sessions and
errors. A client of the protocol revision without a handshake gets "no such method", and then does
the handshake.

The session of a request is taken from the first of these that is present:

- the header `X-NeMo-Gym-Session-Token`, which `seed_session` returns,
- the header `Mcp-Session-Id`, which `initialize` returns,
- the session's cookie, or the in-process caller.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from palestra.schema import (
    JSON_TYPE,
    FunctionCall,
    JsonDict,
    JsonObject,
    Response,
    changed,
    encode_json,
)
from palestra.server.sessions import SESSION_ID_KEY
from palestra.server.signing import BadSignature, Signer

MCP_PATH: Final = "/mcp"
TOKEN_HEADER: Final = "X-NeMo-Gym-Session-Token"  # noqa: S105  # a header's name
MCP_SESSION_HEADER: Final = "Mcp-Session-Id"
MCP_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol revisions that begin with a handshake, oldest first."""

_ALLOWED: Final = " tools="
"""What separates the session's id from the names of its tools, in a token."""

_GRANT: Final = "palestra_mcp_tools"
"""The scope's key for the names that the token allows; None for all."""

_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _BAD_PARAMS = -32700, -32600, -32601, -32602


class NoSuchTool(Exception):
    """Error: the server has no tool with this name."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's answer. `failed`: the tool failed, and the text is the error."""

    text: str
    failed: bool = False


CallTool = Callable[[str, JsonDict, Request], Awaitable[ToolAnswer]]
"""Runs a tool in the request's session. Raises NoSuchTool, or the error of a tool with a bug."""


class _Call(BaseModel):
    """The parameters of `tools/call`."""

    name: str
    arguments: JsonDict | None = None


class _JsonRpc(BaseModel):
    """One JSON-RPC message: a notification without `id`, an answer without `method`."""

    model_config = ConfigDict(extra="allow")

    id: str | int | None = None
    method: str | None = None
    params: JsonDict = Field(default_factory=dict)


class _Refused(Exception):
    """Error that becomes the `error` member of a JSON-RPC answer."""

    def __init__(self, code: int, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


@final
class McpDoor:
    """The route at `/mcp` of one server. `tools`: Responses API tool entries, by name."""

    def __init__(
        self,
        *,
        server: str,
        secret: str,
        tools: Mapping[str, JsonObject],
        call: CallTool,
        transport: str = "streamable_http",
        needs_token: bool = False,
    ) -> None:
        """`transport`: the name of the transport in the answer of `seed_session`. `needs_token`:
        `tools/call` answers an error to a request without a token, even if it has a session.
        """
        self._transport = transport
        self._needs_token = needs_token
        self._server = server
        self._signer = Signer(secret, purpose=f"mcp {server}")
        self._tools = tools
        self._call = call

    @property
    def route(self) -> Route:
        """The route for POST only. A GET would open a stream of server messages, and there are
        none.
        """
        return Route(MCP_PATH, self.answer, methods=["POST"])

    def described(self, session_id: str, allowed: Collection[str] | None = None) -> JsonDict:
        """Return the `mcp` field of `seed_session`'s answer: how to reach the tools in this
        session. `allowed`: the names of the tools that the session may use; None for all.
        """
        return {
            "server_name": self._server,
            "url_path": MCP_PATH,
            "transport": self._transport,
            "headers": {TOKEN_HEADER: self._token(session_id, allowed)},
        }

    async def answer(self, request: Request) -> HttpResponse:
        """Answer one message. Raises `CallError` when a tool could not answer, which is not a
        tool's error.
        """
        message: _JsonRpc | None = None
        try:
            message = _message(await request.body())
            if message.method is None or message.id is None:
                return HttpResponse(status_code=202)
            self._bind(request)
            result = await self._result(message.method, message.params, request)
        except _Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            return _reply({"id": message and message.id, "error": error}, status=refusal.status)
        headers = {}
        if message.method == "initialize" and not self._needs_token:
            headers[MCP_SESSION_HEADER] = self._token(request.session[SESSION_ID_KEY])
        return _reply({"id": message.id, "result": result}, headers=headers)

    async def _result(self, method: str, params: JsonObject, request: Request) -> JsonDict:
        match method:
            case "initialize":
                return self._welcome(params.get("protocolVersion"))
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [_entry(self._tools[name]) for name in self._allowed(request)]}
            case "tools/call":
                return await self._called(params, request)
        raise _Refused(_NO_METHOD, f"{self._server} has no method {method!r}")

    def _welcome(self, revision: Any) -> JsonDict:
        return {
            "protocolVersion": revision if revision in MCP_REVISIONS else MCP_REVISIONS[-1],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": self._server, "version": "1"},
        }

    async def _called(self, params: JsonObject, request: Request) -> JsonDict:
        try:
            call = _Call.model_validate(params)
            tool_answer = await self._tool_answer(call, request)
        except ValidationError as error:
            raise _Refused(_BAD_PARAMS, f"tools/call: {error}") from None
        except NoSuchTool:
            raise _Refused(_BAD_PARAMS, f"there is no tool named {call.name}") from None
        return {
            "content": [{"type": "text", "text": tool_answer.text}],
            "isError": tool_answer.failed,
        }

    async def _tool_answer(self, call: _Call, request: Request) -> ToolAnswer:
        if self._needs_token and _GRANT not in request.scope:
            return ToolAnswer(
                f"{call.name} needs the header {TOKEN_HEADER} that /seed_session answered",
                failed=True,
            )
        allowed = self._allowed(request)
        if call.name in self._tools and call.name not in allowed:
            text = f"{call.name} is not a tool of this session: {', '.join(allowed) or 'none'}"
            return ToolAnswer(text, failed=True)
        return await self._call(call.name, call.arguments or {}, request)

    def _allowed(self, request: Request) -> list[str]:
        """Return the names of the tools that the request may use."""
        grant = request.scope.get(_GRANT)
        return [name for name in self._tools if grant is None or name in grant]

    def _bind(self, request: Request) -> None:
        """Put the request into the session that its headers name, if any."""
        token = request.headers.get(TOKEN_HEADER) or request.headers.get(MCP_SESSION_HEADER)
        if not token:
            return
        try:
            signed = self._signer.unsign(token.encode("latin-1", "replace")).decode()
        except BadSignature:
            if self._needs_token:
                return
            # 404 makes a client begin anew, which is right when we were started anew.
            raise _Refused(
                _INVALID_REQUEST, "the session's token is not of this server", status=404
            ) from None
        session_id, limited, names = signed.partition(_ALLOWED)
        request.scope["session"] = {SESSION_ID_KEY: session_id}
        request.scope[_GRANT] = frozenset(names.split(",")) if limited else None

    def _token(self, session_id: str, allowed: Collection[str] | None = None) -> str:
        names = "" if allowed is None else f"{_ALLOWED}{','.join(allowed)}"
        return self._signer.sign(f"{session_id}{names}".encode()).decode()


def plainly_named(body: Any, *, server: str) -> Any:
    """Return the verify request, with the MCP names of this server's tools replaced by their own
    names.
    """
    response = getattr(body, "response", None)
    if not isinstance(response, Response):
        return body
    output = [
        changed(item, {"name": own_name(item.name, server=server)})
        if isinstance(item, FunctionCall)
        else item
        for item in response.output
    ]
    return changed(body, {"response": changed(response, {"output": output})})


def own_name(name: str, *, server: str) -> str:
    """Return a tool's name as the server defines it.

    MCP clients record it as `mcp__<server>__<tool>`, with `_` for characters that a name must not
    have.
    """
    return name.removeprefix(f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__")


def _message(raw: bytes) -> _JsonRpc:
    try:
        decoded = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _Refused(_PARSE_ERROR, f"the body is not JSON: {error}", status=400) from None
    try:
        return _JsonRpc.model_validate(decoded)
    except ValidationError:
        raise _Refused(
            _INVALID_REQUEST, "the body is not one JSON-RPC message", status=400
        ) from None


def _entry(tool: JsonObject) -> JsonDict:
    """Convert a Responses API tool entry to an MCP tool entry."""
    return {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "inputSchema": tool.get("parameters") or {"type": "object"},
    }


def _reply(
    body: JsonObject, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    content = encode_json({"jsonrpc": "2.0", **body})
    return HttpResponse(content, status, headers, media_type=JSON_TYPE)


__all__ = [
    "MCP_PATH",
    "MCP_SESSION_HEADER",
    "TOKEN_HEADER",
    "McpDoor",
    "NoSuchTool",
    "ToolAnswer",
    "own_name",
    "plainly_named",
]
