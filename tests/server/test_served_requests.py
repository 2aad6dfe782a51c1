"""Requests that schemathesis makes of our servers' documents: no 500, and answers as described.

The same requests each time. Each kind of server is on a real socket, with a scripted model behind.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest
import shipped_servers as shipped
from fuzzed_requests import findings_at, fuzzer

from palestra.config import PACKAGE_ROOT, ServerType, load_config
from palestra.errors import ConfigError
from palestra.fleet import assembled
from palestra.fleet.sockets import listen, serving
from palestra.responses_api_models.local_model.running import require_engine
from palestra.responses_api_models.local_model.weights import find_weights
from palestra.responses_api_models.local_servers import find_vllm
from palestra.responses_api_models.local_vllm_model.engine import require_machine
from palestra.testing import ScriptedModel, scripted_endpoint
from palestra.transport import ASGIApp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(170)]

MODEL_SERVERS = sorted(shipped.folders("responses_api_models"))
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
SERVED_OTHERWISE = {"environment_file"}
"""Environments without a shipped config; their one-file server has a test of its own."""
MESSAGE = {
    "type": "message",
    "id": "message_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "2", "annotations": []}],
}
RECORDED = {
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
    "reward": 1.0,
    "responses_create_params": {"input": "1 + 1?"},
    "response": {
        "id": "response_1",
        "created_at": 1,
        "model": "scripted",
        "object": "response",
        "output": [MESSAGE],
    },
}
VERIFIERS_ENVIRONMENT = """
import verifiers as vf
from datasets import Dataset


async def right(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def load_environment():
    data = Dataset.from_list([{"question": "1 + 1?", "answer": "2"}])
    return vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric(funcs=[right]))
"""


STAND_IN = """
import importlib


class Environment:
    def __init__(self, module):
        self.module = module

    async def run_rollout(self, row, client, *, model, sampling_args):
        completion = await client.get_native_response(row["prompt"], model, sampling_args)
        said = completion.choices[0].message.content
        return {
            "completion": [{"role": "assistant", "content": said}],
            "reward": float(said == row.get("answer")),
            "metrics": {},
            "is_truncated": False,
        }


def load_environment(env_id):
    return Environment(importlib.import_module(env_id.replace("-", "_")))
"""
STAND_IN_CLIENT = """
class OpenAIChatCompletionsClient:
    def __init__(self, client):
        self.client = client
"""


@pytest.fixture
def verifiers_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment `sum-env` of the `verifiers` library, or of a stand-in where there is none."""
    monkeypatch.syspath_prepend(str(tmp_path))
    if find_spec("verifiers") is not None:
        (tmp_path / "sum_env.py").write_text(VERIFIERS_ENVIRONMENT)
        yield
        return
    clients = tmp_path / "verifiers/clients"
    clients.mkdir(parents=True)
    (tmp_path / "sum_env.py").write_text("")
    (tmp_path / "verifiers/__init__.py").write_text(STAND_IN)
    (clients / "openai_chat_completions_client.py").write_text(STAND_IN_CLIENT)
    yield
    agent = "palestra.responses_api_agents.verifiers_agent.app"
    for name in [name for name in sys.modules if name.split(".")[0] == "verifiers"] + [agent]:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """The process that makes the requests."""
    with fuzzer(tmp_path_factory.mktemp("requests")) as pool:
        yield pool


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a socket of this machine; its URL."""
    sock = listen("127.0.0.1", 0)
    async with serving(app, sock):
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


async def findings(app: ASGIApp, requests: ProcessPoolExecutor) -> list[str]:
    """What schemathesis finds wrong with an app."""
    async with served(app) as url:
        return await asyncio.get_running_loop().run_in_executor(requests, findings_at, url)


async def findings_of(
    config: Path, kind: ServerType, requests: ProcessPoolExecutor, overrides: Sequence[str] = ()
) -> list[str]:
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
        return await findings(assembly.servers[name].asgi_app(), requests)


@pytest.mark.parametrize("name", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_environment_answers_as_it_says(name: str, requests: ProcessPoolExecutor) -> None:
    config = PACKAGE_ROOT / "resources_servers" / name / "configs" / f"{name}.yaml"

    assert asyncio.run(findings_of(config, ServerType.RESOURCES, requests)) == []


def test_an_environment_in_one_file_answers_as_it_says(
    requests: ProcessPoolExecutor, tmp_path: Path
) -> None:
    server = shipped.environment_file(tmp_path / "one_file.py")

    assert asyncio.run(findings(server.asgi_app(), requests)) == []


def test_every_agent_and_each_kind_of_environment_is_among_them() -> None:
    environments = shipped.folders("resources_servers") - SERVED_OTHERWISE
    tried = set().union(*map(shipped.bases, ENVIRONMENTS.values()))

    assert shipped.folders("responses_api_agents") == {
        *RUN_BY_AGENTS,
        "environment_agent",  # `simple_agent`, with turns; its own tests run it
        "verifiers_agent",
    }
    assert [name for name in environments if not shipped.bases(name) <= tried] == []


@pytest.mark.parametrize("agent", RUN_BY_AGENTS)
def test_an_agent_answers_as_it_says(agent: str, requests: ProcessPoolExecutor) -> None:
    config = PACKAGE_ROOT / f"{RUN_BY_AGENTS[agent]}.yaml"

    assert asyncio.run(findings_of(config, ServerType.AGENT, requests)) == []


@pytest.mark.usefixtures("verifiers_library")
def test_the_verifiers_agent_answers_as_it_says(requests: ProcessPoolExecutor) -> None:
    config = PACKAGE_ROOT / "responses_api_agents/verifiers_agent/configs/verifiers_agent.yaml"
    environment = "++verifiers_agent.responses_api_agents.verifiers_agent.env_id=sum-env"

    assert asyncio.run(findings_of(config, ServerType.AGENT, requests, [environment])) == []


def model_config(server: str) -> Path:
    """The config of a model server."""
    return PACKAGE_ROOT / "responses_api_models" / server / "configs" / f"{server}.yaml"


def skip_without_the_local_model() -> None:
    """The engine and the weights of `local_model` may not be installed."""
    try:
        require_engine()
        find_weights(None)
    except ConfigError as error:
        pytest.skip(error.message)


def skip_without_vllm() -> None:
    """VLLM or the GPU that it needs may not be on this machine."""
    try:
        require_machine("policy_model", partial(find_vllm, None))
    except ConfigError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("server", MODEL_SERVERS)
def test_a_model_server_answers_as_it_says(
    server: str, requests: ProcessPoolExecutor, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_bytes(orjson.dumps(RECORDED) + b"\n")
    with scripted_endpoint(*["It is so."] * 10_000) as endpoint:
        overrides = [f"++policy_rollouts={recorded}", *endpoint.policy]
        if server == "inference_provider":
            prefix = f"++policy_model.responses_api_models.{server}"
            overrides += [f"{prefix}.base_url={endpoint.url}/v1", f"{prefix}.api_key=none"]
        if server == "local_vllm_model":
            skip_without_vllm()
        if server == "anthropic_model":
            pytest.skip("the scripted endpoint does not speak Messages; test_anthropic_model does")
        if server == "local_model":
            skip_without_the_local_model()
            prefix = f"++policy_model.responses_api_models.{server}"
            short = {"context_tokens": 64, "max_output_tokens_default": 4, "slots": 2}
            overrides = [f"{prefix}.{name}={value}" for name, value in short.items()]
        config = model_config(server)

        assert asyncio.run(findings_of(config, ServerType.MODEL, requests, overrides)) == []


def test_the_head_server_answers_as_it_says(requests: ProcessPoolExecutor) -> None:
    assert asyncio.run(findings(shipped.head(), requests)) == []


def test_the_sandbox_service_answers_as_it_says(requests: ProcessPoolExecutor) -> None:
    async def main() -> list[str]:
        async with (
            shipped.unisolated_sandbox() as sandbox,
            shipped.sandbox_service(sandbox) as service,
        ):
            return await findings(service.app(), requests)

    assert asyncio.run(main()) == []
