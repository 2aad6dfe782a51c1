"""The POST routes of an environment written against `nemo_gym` as tools at `/mcp`.

`expose` works on any app, in a fleet or alone:

- a route is a tool when its path has no parameters and its body is one pydantic model, or nothing;
- `/seed_session` also answers how to reach the tools, with a token for its session;
- `/verify` gets tool calls under the tools' own names, and answers with the recorded names.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route

from palestra.compat.whole_messages import (
    Receive,
    Send,
    WholeAnswer,
    json_object,
    read_body,
    replayed,
)
from palestra.errors import CallError, from_body
from palestra.schema import JsonDict, encode_json
from palestra.server import (
    MCP_PATH,
    SESSION_ID_KEY,
    CallTool,
    McpDoor,
    ToolAnswer,
    own_name,
)
from palestra.transport import ASGIApp, call_asgi

RESERVED_NAMES: Final = frozenset({"verify", "seed_session", "aggregate_metrics", "mcp"})
"""Names of the protocol's own endpoints, which no tool may have."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

WholeApp = Callable[[], ASGIApp]
"""Returns the app that a tool call is sent to. In a fleet it is the app inside its `Boundary`,
which does not exist yet when the routes are made.
"""


@dataclass(frozen=True, slots=True)
class MCPTool:
    """A tool. `input_schema`: the JSON Schema of its arguments; `path`: where a call is posted."""

    name: str
    description: str
    input_schema: JsonDict
    path: str


@final
class Catchall:
    """The route that takes any tool name, like `/{name}`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def tool(self, name: str, schema: JsonDict | None = None, description: str = "") -> MCPTool:
        """Return a tool that this route runs. `schema`: the JSON Schema of its arguments."""
        path = re.sub(r"\{[^}]*\}", name, self.path)
        return MCPTool(name, description, schema or {"type": "object"}, path)


def expose(
    server: Any, app: FastAPI, whole_app: WholeApp, *, secret: str, needs_token: bool
) -> dict[str, MCPTool]:
    """Add `/mcp` to `app` and return its tools. `secret` signs the tokens of sessions.

    `needs_token`: a tool call without a token is an error even if its cookie names a session.
    Raises ValueError: the app has `/mcp` already, or a tool cannot be offered.
    """
    if any(_is_mcp(route) for route in app.routes):
        raise ValueError(f"{server.config.name}: the app has a route at {MCP_PATH} already")
    tools = _checked(server.config.name, _tools(server, app))
    door = McpDoor(
        server=server.config.name,
        secret=secret,
        tools={tool.name: _entry(tool) for tool in tools.values()},
        call=_caller(tools, whole_app, needs_token=needs_token),
        transport="http",
        needs_token=needs_token,
    )
    # Before a catch-all of the author's.
    app.router.routes.insert(0, door.route)
    app.router.routes.insert(1, Route(f"{MCP_PATH}/{{below:path}}", door.answer, methods=["POST"]))
    # The innermost: sessions are made and prefixes are taken away outside of it.
    app.user_middleware.append(Middleware(McpLayer, server=server, door=door))
    return tools


def is_exposed(app: FastAPI) -> bool:
    """Whether `expose` has been called for `app`."""
    return any(cast("object", layer.cls) is McpLayer for layer in app.user_middleware)


def bare_name(name: str, server_name: str | None = None) -> str:
    """Return a tool's own name; MCP clients record it as `mcp__<server>__<tool>`.

    `server_name`: only the names of this server's tools change. None: those of every server.
    """
    if server_name is None:
        return re.sub(r"^mcp__.+?__", "", name)
    return own_name(name, server=server_name)


def _is_mcp(route: BaseRoute) -> bool:
    path = getattr(route, "path", "").rstrip("/")
    return path == MCP_PATH and isinstance(route, Route | Mount)


def _tools(server: Any, app: FastAPI) -> list[MCPTool]:
    routes = [
        route
        for route in app.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    ]
    harvested = [tool for route in routes if (tool := _tool(route)) is not None]
    paths = [route.path for route in routes if re.fullmatch(r"/\{[^}]*\}", route.path)]
    catchall = Catchall(paths[0]) if paths else None
    hook = getattr(server, "mcp_tools", None)
    tools = hook(harvested, catchall) if hook is not None else None
    return harvested if tools is None else list(tools)


def _tool(route: APIRoute) -> MCPTool | None:
    name = route.path.strip("/")
    if not name or "{" in name or name in RESERVED_NAMES:
        return None
    needs = route.dependant
    if needs.dependencies or len(needs.body_params) > 1:
        reason = "dependencies" if needs.dependencies else "several bodies"
        raise ValueError(
            f"{route.path} cannot be an MCP tool: its handler has {reason}; give it one pydantic "
            "model as its body, and the request as `request: Request`"
        )
    kind = route.body_field.field_info.annotation if route.body_field is not None else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return MCPTool(name, route.description, kind.model_json_schema(), route.path)
    reads_the_request = kind is not None or needs.request_param_name is not None
    if reads_the_request:
        return None  # its arguments are not known
    schema: JsonDict = {"type": "object", "properties": {}}
    return MCPTool(name, route.description, schema, route.path)


def _checked(server: str, tools: Iterable[MCPTool]) -> dict[str, MCPTool]:
    tools = list(tools)
    counts = Counter(tool.name for tool in tools)
    problems = [
        *(f"{name!r} is reserved" for name in counts if name in RESERVED_NAMES),
        *(f"{name!r} is there {count} times" for name, count in counts.items() if count > 1),
        *(
            f"{name!r} is not a tool name (letters, digits, _ and -, at most 64)"
            for name in counts
            if not _TOOL_NAME.fullmatch(name)
        ),
    ]
    if problems:
        raise ValueError(f"{server}: these MCP tools cannot be offered: {'; '.join(problems)}")
    return {tool.name: tool for tool in tools}


def _entry(tool: MCPTool) -> JsonDict:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.input_schema),
    }


def _caller(tools: Mapping[str, MCPTool], whole_app: WholeApp, *, needs_token: bool) -> CallTool:
    async def call(name: str, arguments: JsonDict, request: Request) -> ToolAnswer:
        if name not in tools:
            text = f"there is no tool named {name}; the tools are {', '.join(tools) or 'none'}"
            return ToolAnswer(text, failed=True)
        try:
            reply = await call_asgi(
                whole_app(),
                "POST",
                tools[name].path,
                body=encode_json(arguments),
                cookies=None if needs_token else request.cookies,
                session_id=request.session[SESSION_ID_KEY],
            )
        except CallError:
            raise
        except Exception as error:  # a bug of the author's, which the model reads
            return ToolAnswer(_error(f"{type(error).__name__}: {error}"), failed=True)
        text = reply.body.decode("utf-8", "replace")
        if reply.status < 400:
            return ToolAnswer(text)
        failure = from_body(_json(reply.body))
        if failure is not None and failure.evidence.hops:
            # A call that the tool made failed: that is no answer of the tool.
            raise failure
        return ToolAnswer(text if failure is None else _error(failure.message), failed=True)

    return call


@final
class McpLayer:
    """ASGI middleware of an exposed app, for `/seed_session` and `/verify`."""

    def __init__(self, app: ASGIApp, *, server: Any, door: McpDoor) -> None:
        self._app = app
        self._server = server
        self._door = door

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == "/seed_session":
            await self._seed(scope, receive, send)
        elif path == "/verify":
            await self._verify(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _seed(self, scope: Any, receive: Receive, send: Send) -> None:
        messages, raw = await read_body(receive)
        answer = WholeAnswer()
        await self._app(scope, replayed(messages, receive), answer.send)
        hook = getattr(self._server, "mcp_allowed_tools_for_session", None)
        allowed = hook(json_object(raw) or {}) if hook is not None else None
        mcp = self._door.described(scope["session"][SESSION_ID_KEY], allowed)
        await answer.pass_on(send, lambda seeded: {**seeded, "mcp": mcp})

    async def _verify(self, scope: Any, receive: Receive, send: Send) -> None:
        messages, raw = await read_body(receive)
        body = json_object(raw) if b"mcp__" in raw else None
        if body is None:
            await self._app(scope, replayed(messages, receive), send)
            return
        names = self._with_bare_names(body)
        messages = [{"type": "http.request", "body": encode_json(body), "more_body": False}]
        answer = WholeAnswer()
        await self._app(scope, replayed(messages, receive), answer.send)
        await answer.pass_on(send, lambda verified: _with_recorded_names(verified, names))

    def _with_bare_names(self, body: JsonDict) -> list[str | None]:
        """Rename the calls in `body` and return the recorded name of each output item; None for
        items that keep theirs.
        """
        names: list[str | None] = []
        for item in _output(body):
            is_call = isinstance(item, dict) and item.get("type") == "function_call"
            name = item.get("name") if is_call else None
            bare = self._bare(name) if isinstance(name, str) else name
            names.append(name if bare != name else None)
            if bare != name:
                item["name"] = bare
        return names

    def _bare(self, name: str) -> str:
        hook = getattr(self._server, "normalize_tool_name", None)
        bare: str = hook(name) if hook else bare_name(name, self._server.config.name)
        return bare


def _with_recorded_names(verified: JsonDict, names: list[str | None]) -> JsonDict:
    output = _output(verified)
    if len(output) == len(names):
        for item, name in zip(output, names, strict=True):
            if name is not None and isinstance(item, dict):
                item["name"] = name
    return verified


def _output(body: JsonDict) -> list[Any]:
    response = body.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    return output if isinstance(output, list) else []


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _error(message: str) -> str:
    return encode_json({"error": message}).decode()


__all__ = [
    "MCP_PATH",
    "RESERVED_NAMES",
    "Catchall",
    "MCPTool",
    "McpLayer",
    "bare_name",
    "expose",
    "is_exposed",
]
