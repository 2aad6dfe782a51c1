"""`/mcp` of an environment written against `nemo_gym`: its POST routes as tools.

A route is a tool when its path is one fixed name that the protocol does not use. A catch-all route
has no names to list: the tools of such an environment are only in its rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request

from palestra.errors import from_body
from palestra.schema import JsonDict, encode_json
from palestra.server import SESSION_ID_KEY, CallTool, McpDoor, NoSuchTool, ToolAnswer
from palestra.transport import ASGIApp, call_asgi

_PROTOCOL: Final = frozenset(
    {"seed_session", "verify", "aggregate_metrics", "run", "reset", "step", "close", "mcp"}
)


WholeApp = Callable[[], ASGIApp]
"""Returns the complete app: the server's app inside its `Boundary`.

It is a function because the `Boundary` does not exist yet when routes are made.
"""


def mcp_door(app: FastAPI, whole_app: WholeApp, *, server: str, secret: str) -> McpDoor:
    """Return the `McpDoor` to the tools of `app`. A tool call is a POST to the whole app, like an
    agent's.
    """
    tools = {entry["name"]: entry for entry in _entries(app)}
    return McpDoor(server=server, secret=secret, tools=tools, call=_caller(tools, whole_app))


def _caller(tools: dict[str, Any], whole_app: WholeApp) -> CallTool:
    async def call(name: str, arguments: JsonDict, request: Request) -> ToolAnswer:
        if name not in tools:
            raise NoSuchTool(name)
        reply = await call_asgi(
            whole_app(),
            "POST",
            f"/{name}",
            body=encode_json(arguments),
            cookies=request.cookies,
            session_id=request.session[SESSION_ID_KEY],
        )
        text = reply.body.decode("utf-8", "replace")
        if reply.status < 400:
            return ToolAnswer(text)
        failure = from_body(_json(reply.body))
        if failure is not None and failure.evidence.hops:
            # A call that the tool made failed: that is no answer of the tool.
            raise failure
        return ToolAnswer(text if failure is None else _error(failure.message), failed=True)

    return call


def _entries(app: FastAPI) -> Iterator[JsonDict]:
    for route in app.routes:
        if not isinstance(route, APIRoute) or "POST" not in (route.methods or ()):
            continue
        name = route.path.strip("/")
        if not name or "/" in name or "{" in name or name in _PROTOCOL:
            continue
        yield {"name": name, "description": route.description, "parameters": _schema(route)}


def _schema(route: APIRoute) -> JsonDict:
    kind = route.body_field.field_info.annotation if route.body_field is not None else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_json_schema()
    return {"type": "object"}


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _error(message: str) -> str:
    return encode_json({"error": message}).decode()
