"""Find tools that rows offer to the model and that no server runs, before the first rollout.

Every call of such a tool is answered "there is no tool named …", and the model can do nothing about
it. Only what is certain is reported: the agent is one of Palestra that sends each call to its one
environment, and the environment runs some tools and has no route for this one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, final

import orjson

from palestra.config import nearest
from palestra.errors import CallError, from_body
from palestra.rollouts.expansion import Place
from palestra.rollouts.prepare import PreparedRun
from palestra.rollouts.row_checks import AgentRoute, published_document
from palestra.schema import AGENT_REF, CREATE_PARAMS, TASK_INDEX, JsonDict, field_of, read_jsonl
from palestra.transport import ServerClient, is_tool_path, tool_path

MOST_PLACES: Final = 5
"""The largest number of rows that are named for one tool."""
MOST_TOOLS: Final = 20
"""The largest number of different tools that are reported."""
_OF_MCP: Final = "mcp__"


@final
@dataclass(slots=True)
class UnservedTool:
    """A tool that rows offer and that their environment does not run."""

    server: str
    """The environment."""
    name: str
    near: str
    """The most similar tool of the environment; empty when none is similar."""
    tasks: int = 0
    """The number of tasks whose rows offer the tool."""
    places: list[Place] = field(default_factory=list)
    """The first rows that offer it."""

    def __str__(self) -> str:
        rows = "1 row offers" if self.tasks == 1 else f"{self.tasks} rows offer"
        near = f"; did you mean {self.near!r}?" if self.near else ""
        return f"{rows} the tool {self.name!r}, which {self.server} does not have{near}"


async def unserved_tools(
    planned: PreparedRun, client: ServerClient, routes: Iterable[AgentRoute]
) -> tuple[UnservedTool, ...]:
    """Return the tools that rows of `planned` offer and that no server certainly runs, the most
    frequent first, at most `MOST_TOOLS`.
    """
    environments: dict[str, tuple[str, frozenset[str]]] = {}
    for route in routes:
        if route.sends_calls_to_its_environment:
            [server] = route.environments
            tools = _tools_in(await published_document(client, server))
            if tools:
                environments[route.agent] = server, tools
    if not environments:
        return ()
    offered = await asyncio.to_thread(_offered, planned, environments)
    by_frequency = sorted(offered, key=lambda tool: -tool.tasks)[:MOST_TOOLS]
    return tuple([tool for tool in by_frequency if await _has_no_route(client, tool)])


def _tools_in(document: JsonDict) -> frozenset[str]:
    """Return the names of the tools that a server publishes; none when it is no environment, or when
    a route of it may take any name.
    """
    paths = document.get("paths", {})
    if "/verify" not in paths or any("{" in path.split("/")[1] for path in paths):
        return frozenset()
    return frozenset(
        path[1:] for path, methods in paths.items() if "post" in methods and is_tool_path(path)
    )


def _offered(
    planned: PreparedRun, environments: Mapping[str, tuple[str, frozenset[str]]]
) -> list[UnservedTool]:
    """Return the offered tools that their environment does not publish."""
    unpublished: dict[tuple[str, str], UnservedTool] = {}
    tasks: set[int] = set()
    for line in read_jsonl(planned.inputs):
        environment = environments.get(line.row[AGENT_REF]["name"])
        task = line.row[TASK_INDEX]
        if environment is None or task in tasks:
            continue
        tasks.add(task)
        server, tools = environment
        for name in sorted(_names_in(line.row.get(CREATE_PARAMS)) - tools):
            tool = unpublished.get((server, name))
            if tool is None:
                near = nearest(name, sorted(tools)) or ""
                tool = unpublished[server, name] = UnservedTool(server, name, near)
            tool.tasks += 1
            if len(tool.places) < MOST_PLACES:
                tool.places.append(planned.places[task])
    return list(unpublished.values())


def _names_in(params: Any) -> set[str]:
    """Return the names of the functions that a request offers and the model may call."""
    tools = field_of(params, "tools")
    if not isinstance(tools, list) or field_of(params, "tool_choice") == "none":
        return set()
    names = {field_of(tool, "name") for tool in tools if field_of(tool, "type") == "function"}
    return {name for name in names if isinstance(name, str) and not name.startswith(_OF_MCP)}


async def _has_no_route(client: ServerClient, tool: UnservedTool) -> bool:
    """Whether the environment certainly has no route for a tool: also none that it does not publish.

    OPTIONS runs no tool: a route for POST answers that it takes POST alone.
    """
    path = tool_path(tool.name)
    if path is None:
        return True  # a reserved name: such a call is not sent
    try:
        reply = await client.request(tool.server, path, method="OPTIONS", stateless=True)
        failure = from_body(orjson.loads(reply.content.body))
    except (CallError, ValueError):
        return False
    is_unrouted = failure is not None and not failure.retriable
    return reply.status == HTTPStatus.NOT_FOUND and is_unrouted
