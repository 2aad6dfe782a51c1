"""Requests that schemathesis makes of our servers' documents: no 500, and answers as described.

The same requests each time. Each kind of server is on a real socket, with a scripted model behind.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import shipped_servers as shipped

from palestra.config import PACKAGE_ROOT, ServerType, load_config
from palestra.serving import assembled
from palestra.serving.listener import serving
from palestra.serving.sockets import listen
from palestra.testing import ScriptedModel, scripted_endpoint
from palestra.transport import ASGIApp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(170)]

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
EXAMPLES = 12
"""Requests of each operation."""
MODEL_SERVERS = ("azure_openai_model", "inference_provider")
RUN_BY_AGENTS = {
    "simple_agent": "resources_servers/example_single_tool_call/configs/example_single_tool_call",
    "gymnasium_agent": "resources_servers/blackjack/configs/blackjack",
    "mcp_agent": "resources_servers/example_mcp_weather/configs/example_mcp_weather",
}
ENVIRONMENTS = {
    "tools and a session": "example_session_state_mgmt",
    "MCP": "example_mcp_weather",
    "a judge": "equivalence_llm_judge",
    "turns": "blackjack",
    "metrics of its own": "instruction_following",
}


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a socket of this machine; its URL."""
    sock = listen("127.0.0.1", 0)
    async with serving(app, sock):
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


async def findings(app: ASGIApp, folder: Path) -> str:
    """What schemathesis finds; empty when that is nothing."""
    async with served(app) as url:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{url}/openapi.json", "--checks", CHECKS, "--phases", "fuzzing"),
            *("--max-examples", str(EXAMPLES), "--generation-deterministic", "--no-shrink"),
            *("--no-color", "--warnings", "off", "--suppress-health-check", "all"),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
    return "" if process.returncode == 0 else printed.decode()


async def findings_of(
    config: Path, kind: ServerType, folder: Path, overrides: Sequence[str] = ()
) -> str:
    """The findings of one server of a config, with the others around it."""
    loaded = load_config(
        overrides=[*shipped.ENDPOINT, *overrides],
        config_paths=[str(config)],
        required=(),
        use_env_yaml=False,
    )
    name = loaded.instances_of(kind)[0].name
    models = {
        ref.name
        for instance in loaded.instances.values()
        for ref in instance.refs
        if ref.type == ServerType.MODEL
    }
    model = ScriptedModel.answering(lambda _: "It is so.\n[[A=B]]")
    stand_ins = dict.fromkeys(models, model)
    async with assembled(loaded, list(loaded.instances), stand_ins) as assembly:
        return await findings(assembly.servers[name].asgi_app(), folder)


@pytest.mark.parametrize("name", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_environment_answers_as_it_says(name: str, tmp_path: Path) -> None:
    config = PACKAGE_ROOT / "resources_servers" / name / "configs" / f"{name}.yaml"

    assert asyncio.run(findings_of(config, ServerType.RESOURCES, tmp_path)) == ""


@pytest.mark.parametrize("agent", RUN_BY_AGENTS)
def test_an_agent_answers_as_it_says(agent: str, tmp_path: Path) -> None:
    config = PACKAGE_ROOT / f"{RUN_BY_AGENTS[agent]}.yaml"

    assert asyncio.run(findings_of(config, ServerType.AGENT, tmp_path)) == ""


@pytest.mark.parametrize("server", MODEL_SERVERS)
def test_a_model_server_answers_as_it_says(server: str, tmp_path: Path) -> None:
    config = PACKAGE_ROOT / "responses_api_models" / server / "configs" / f"{server}.yaml"
    with scripted_endpoint(*["It is so."] * 10_000) as endpoint:
        own = list(endpoint.policy)
        if server == "inference_provider":
            prefix = f"++policy_model.responses_api_models.{server}"
            own += [f"{prefix}.base_url={endpoint.url}/v1", f"{prefix}.api_key=none"]

        assert asyncio.run(findings_of(config, ServerType.MODEL, tmp_path, own)) == ""
