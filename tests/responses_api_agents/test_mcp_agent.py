"""Rollouts whose tools are found over MCP: the environment's, and those of a real stdio server."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from scripted_fleet import (
    ENVIRONMENT,
    MODEL,
    NotingEnvironment,
    ScriptedModel,
    called,
    client_of,
    nobody,
    noting,
    said,
    scripted,
    turn,
)

from palestra.config import load_config
from palestra.errors import InfraError, WrongSetting
from palestra.fleet import PROCESS, Fleet
from palestra.resources_servers.example_mcp_weather.app import McpWeatherServer
from palestra.responses_api_agents.mcp_agent.app import McpAgent, McpAgentConfig
from palestra.responses_api_agents.mcp_agent.toolbox import EnvironmentTools
from palestra.schema import FunctionCallOutput, Response, RunRequest, VerifyResponse
from palestra.server import (
    ModelReference,
    ResourcesReference,
    ResourcesServer,
    ResourcesServerConfig,
)

STDIO_SERVER = """
import os
from mcp.server import MCPServer

server = MCPServer("outside")
count = 0

@server.tool()
def count_up() -> str:
    "Count calls of this process."
    global count
    count += 1
    return f"{count}"

@server.tool()
def quick(word: str) -> str:
    "Say it twice."
    return word + word

@server.tool()
async def never() -> str:
    "Take forever."
    import asyncio
    await asyncio.sleep(3600)
    return ""

@server.tool()
def leave() -> str:
    "End the process."
    os._exit(3)

server.run()
"""
STATEFUL = """
from typing import Any

from palestra.schema import VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServer, Session, tool


class TotalServer(ResourcesServer):
    async def seed_session(self, body: dict[str, Any], session: Session) -> WireModel:
        session.state["total"] = body["start"]
        return WireModel()

    @tool
    async def add(self, amount: int, session: Session) -> str:
        session.state["total"] += amount
        return str(session.state["total"])

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)
"""
ROW = {"responses_create_params": {"input": "go"}}


def weather() -> McpWeatherServer:
    config = ResourcesServerConfig(name=ENVIRONMENT, expose_tools_over_mcp=True)
    return McpWeatherServer(config=config, server_client=nobody())


def agent_of(environment: ResourcesServer, model: ScriptedModel, **settings: Any) -> McpAgent:
    config = McpAgentConfig(
        name="agent",
        resources_server=ResourcesReference(type="resources_servers", name=ENVIRONMENT),
        model_server=ModelReference(type="responses_api_models", name=MODEL),
        **settings,
    )
    return McpAgent(config=config, server_client=client_of(environment, model))


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, Any]:
    """Settings of an agent with one stdio server and nothing of the environment's."""
    pytest.importorskip("mcp")
    program = tmp_path / "outside.py"
    program.write_text(STDIO_SERVER)
    server = {"command": sys.executable, "args": [str(program)]}
    return {"environment_tools": False, "mcp_servers": {"outside": server}}


def run(agent: McpAgent, *rows: dict[str, Any]) -> list[VerifyResponse]:
    async def all_of_them() -> list[VerifyResponse]:
        async with asyncio.timeout(30):
            await agent.start()
            try:
                return [await agent.run(RunRequest.model_validate(row)) for row in rows]
            finally:
                await agent.stop()

    return asyncio.run(all_of_them())


def outputs(response: Response) -> list[Any]:
    return [item.output for item in response.output if isinstance(item, FunctionCallOutput)]


def offered(model: ScriptedModel) -> list[str]:
    return [tool.name for tool in model.asked[0].tools]


def played(settings: dict[str, Any], *calls: dict[str, Any]) -> tuple[list[Any], ScriptedModel]:
    """What the calls were answered, one a turn, in a rollout with an environment that notes."""
    model = scripted(*map(turn, calls), turn(said("done")))
    (result,) = run(agent_of(noting(), model, **settings), ROW)
    return outputs(result.response), model


def test_the_environments_tools_are_added_to_a_row_without_any_and_called_over_mcp() -> None:
    sentence = "The weather in Paris is sunny and 72 F."
    model = scripted(turn(called("get_weather", '{"city": "Paris"}')), turn(said(sentence)))
    row = {**ROW, "verifier_metadata": {"expected_city": "Paris"}}

    (result,) = run(agent_of(weather(), model), row)

    assert result.reward == 1.0
    assert offered(model) == ["get_weather"]
    assert outputs(result.response) == [sentence]


def test_a_row_that_names_tools_keeps_them() -> None:
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    model = scripted(turn(said("no")))
    row = {
        "responses_create_params": {"input": "go", "tools": [tool]},
        "verifier_metadata": {"expected_city": "Paris"},
    }

    run(agent_of(weather(), model), row)

    assert [t.parameters for t in model.asked[0].tools] == [{"type": "object"}]


def test_an_environment_that_does_not_offer_mcp_is_a_wrong_setting() -> None:
    with pytest.raises(WrongSetting, match="does not offer its tools over MCP"):
        run(agent_of(noting(), scripted()), ROW)


@pytest.mark.parametrize("arguments", ['{"town": "Paris"}', '{"city": 3}', "{}", "["])
def test_what_a_tool_cannot_do_goes_back_to_the_model(arguments: str) -> None:
    model = scripted(turn(called("get_weather", arguments)), turn(said("done")))
    row = {**ROW, "verifier_metadata": {"expected_city": "Paris"}}

    (result,) = run(agent_of(weather(), model), row)

    assert "error" in orjson.loads(outputs(result.response)[0])


@pytest.mark.slow
def test_a_server_of_the_settings_answers_and_keeps_its_state_for_the_rollout(
    outside: dict[str, Any],
) -> None:
    answers, model = played(outside, called("count_up"), called("count_up"))

    assert answers == ["1", "2"]
    assert offered(model) == ["count_up", "quick", "never", "leave"]


@pytest.mark.slow
def test_the_allowed_tools_are_the_ones_offered_and_the_rest_is_the_environments(
    outside: dict[str, Any],
) -> None:
    outside["mcp_servers"]["outside"]["tools"] = ["count_up"]

    answers, model = played(outside, called("quick", '{"word": "hm"}'))

    assert offered(model) == ["count_up"]
    assert answers == ["hm"]


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "counts"), [(False, ["1", "1"]), (True, ["1", "2"])])
def test_rollouts_have_a_server_of_their_own_unless_it_is_shared(
    outside: dict[str, Any], shared: bool, counts: list[str]
) -> None:
    outside["mcp_servers"]["outside"]["shared"] = shared
    turns = [turn(called("count_up")), turn(said("done"))] * 2

    results = run(agent_of(noting(), scripted(*turns), **outside), ROW, ROW)

    assert [outputs(result.response)[0] for result in results] == counts


@pytest.mark.slow
def test_two_tools_of_one_name_are_told_apart_by_their_server(outside: dict[str, Any]) -> None:
    settings = {**outside, "environment_tools": True}
    environment = NotingEnvironment(
        config=ResourcesServerConfig(name=ENVIRONMENT, expose_tools_over_mcp=True),
        server_client=nobody(),
    )
    word = '{"word": "hm"}'
    model = scripted(
        turn(called("quick", word), called("outside__quick", word)), turn(said("done"))
    )

    (result,) = run(agent_of(environment, model, **settings), ROW)

    assert outputs(result.response) == ["hm", "hmhm"]


@pytest.mark.slow
def test_a_call_without_an_answer_in_time_and_wrong_arguments_are_told_to_the_model(
    outside: dict[str, Any],
) -> None:
    outside["mcp_servers"]["outside"]["call_timeout_s"] = 0.5

    answers, _ = played(outside, called("never"), called("quick", '{"n": 1}'), called("count_up"))

    assert "no answer within 0.5 s" in answers[0]
    assert "word" in answers[1]
    assert answers[2] == "1"


@pytest.mark.slow
def test_a_server_that_dies_ends_the_rollout_as_a_failure_of_the_infrastructure(
    outside: dict[str, Any],
) -> None:
    with pytest.raises(InfraError, match="outside gave no answer to the tool call leave"):
        played(outside, called("leave"))


def test_a_command_that_does_not_exist_is_said() -> None:
    pytest.importorskip("mcp")
    servers = {"lost": {"command": "no-such-program-anywhere"}}

    with pytest.raises(InfraError, match=r"the MCP server lost cannot be reached: .*no-such"):
        played({"environment_tools": False, "mcp_servers": servers})


def test_a_command_that_ends_at_once_is_quoted() -> None:
    pytest.importorskip("mcp")
    server = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}

    with pytest.raises(InfraError, match="no licence"):
        played({"environment_tools": False, "mcp_servers": {"short": server}})


@pytest.mark.slow
def test_sessions_hold_over_http_and_among_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "resources_servers" / "total"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(STATEFUL)
    settings = {"entrypoint": "app.py", "expose_tools_over_mcp": True, "num_workers": 2}
    tree = {"total": {"resources_servers": {"total": settings}}}
    config = load_config(extra=tree, cwd=tmp_path, use_env_yaml=False)

    async def rollout(fleet: Fleet, start: int) -> list[str]:
        peer = fleet.client.peer("total")
        await peer.notify("/seed_session", {"start": start})
        tools = EnvironmentTools(peer)
        assert [tool.name for tool in await tools.offered()] == ["add"]
        return [await tools.call("add", {"amount": 1}) for _ in range(3)]

    async def rollouts() -> list[list[str]]:
        async with asyncio.timeout(50), Fleet(config, default_placement=PROCESS) as fleet:
            return await asyncio.gather(*(rollout(fleet, start) for start in (0, 10, 20, 30)))

    found = asyncio.run(rollouts())

    assert found == [[str(start + n) for n in (1, 2, 3)] for start in (0, 10, 20, 30)]


@pytest.mark.parametrize("server", [{}, {"command": "x", "url": "http://y"}])
def test_a_server_is_either_a_command_or_a_url(server: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either a command or a url"):
        agent_of(noting(), scripted(), mcp_servers={"s": server})
