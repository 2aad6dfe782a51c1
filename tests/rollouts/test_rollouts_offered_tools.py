"""Tools that rows offer and that no server runs are found before the first rollout."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from scripted_runs import AGENT, settings, task, write_rows

from palestra import tool
from palestra.config import InstanceConfig, ServerType
from palestra.rollouts import AgentRoute, UnservedTool, plan, unserved_tools
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, ResourcesServerConfig
from palestra.transport import HttpClient, ServerClient, Target


class Weather(ResourcesServer):
    """An environment with one tool."""

    @tool
    def look_up(self, city: str) -> str:
        """Look a city up."""
        return city

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class Silent(ResourcesServer):
    """An environment without tools: it may score the calls themselves."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def serving(path: str, *, is_published: bool) -> type[ResourcesServer]:
    """An environment that has a route of its own."""

    class Routed(Weather):
        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            app.post(path, include_in_schema=is_published)(lambda: "answer")
            return app

    return Routed


def offering(number: int, *names: str, kind: str = "function", **params: Any) -> dict[str, Any]:
    row = task(number)
    tools = [{"type": kind, "name": name, "parameters": {"type": "object"}} for name in names]
    row["responses_create_params"] |= {"tools": tools, **params}
    return row


def unserved(
    folder: Path,
    *rows: Any,
    server: type[ResourcesServer] = Weather,
    **route: Any,
) -> tuple[UnservedTool, ...]:
    """The tools of rows that the environment does not run."""
    write_rows(folder / "tasks.jsonl", rows)
    planned = plan(settings(folder, num_repeats=2), agents={AGENT}, semantics={}, version="1")
    targets: dict[str, Target] = {}
    client = ServerClient(targets, HttpClient())
    environment = server(config=ResourcesServerConfig(name="weather"), server_client=client)
    targets["weather"] = Target("weather", "resources_servers", local=environment)
    known = {"environments": ("weather",), "is_shipped": True, "implementation": "simple_agent"}
    routes = [AgentRoute(AGENT, **known | route)]
    return asyncio.run(unserved_tools(planned, client, routes))


def test_an_offered_tool_that_the_environment_lacks_is_found_with_its_rows(tmp_path: Path) -> None:
    rows = offering(1, "look_up"), offering(2, "look_upp"), offering(3, "look_upp", "look_up")

    [found] = unserved(tmp_path, *rows)

    assert (found.server, found.name, found.near, found.tasks) == (
        "weather",
        "look_upp",
        "look_up",
        2,
    )
    assert [place.line for place in found.places] == [2, 3]
    assert str(found) == (
        "2 rows offer the tool 'look_upp', which weather does not have; did you mean 'look_up'?"
    )


def test_tools_of_the_environment_are_no_finding(tmp_path: Path) -> None:
    assert unserved(tmp_path, offering(1, "look_up"), task(2)) == ()


@pytest.mark.parametrize(
    "server",
    [
        Silent,
        serving("/look_upp", is_published=False),
        serving("/{name}", is_published=True),
        serving("/{name}", is_published=False),
    ],
    ids=["no tools", "unpublished", "any name", "any name, unpublished"],
)
def test_an_environment_that_may_take_the_call_is_no_finding(
    tmp_path: Path, server: type[ResourcesServer]
) -> None:
    assert unserved(tmp_path, offering(1, "look_upp"), server=server) == ()


@pytest.mark.parametrize(
    "route",
    [
        {"is_shipped": False},
        {"implementation": "mcp_agent"},
        {"environments": ("weather", "other")},
        {"calls_model_once": True},
    ],
    ids=["an author's", "of MCP", "of two environments", "of one model call"],
)
def test_an_agent_that_may_run_the_tool_itself_is_no_finding(
    tmp_path: Path, route: dict[str, Any]
) -> None:
    assert unserved(tmp_path, offering(1, "look_upp"), **route) == ()


@pytest.mark.parametrize(
    "row",
    [
        offering(1, "look_upp", kind="web_search"),
        offering(1, "mcp__weather__look_up"),
        offering(1, "look_upp", tool_choice="none"),
    ],
    ids=["of the provider", "of MCP", "not to be called"],
)
def test_an_offer_that_leads_to_no_call_of_the_environment_is_no_finding(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    assert unserved(tmp_path, row) == ()


@pytest.mark.parametrize(("max_steps", "sends"), [(None, True), (1, False), (3, True)])
def test_an_agent_of_one_model_call_runs_no_tools(max_steps: int | None, sends: bool) -> None:
    agent = InstanceConfig(
        name=AGENT,
        type=ServerType.AGENT,
        implementation="simple_agent",
        settings={"max_steps": max_steps},
        host="127.0.0.1",
        port=None,
    )
    route = AgentRoute.of(agent)

    assert route.calls_model_once is not sends
