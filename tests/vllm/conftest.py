"""One vLLM for all tests here, started as the documents say; without its environment they skip."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from token_id_commands import announced, documented, environment

from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers import environment_folder, find_vllm
from palestra.responses_api_models.local_servers.vllm_command import HERMES_TEMPLATE

READY_TIMEOUT_S = 1500
ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"


@pytest.fixture(scope="session")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a vLLM that serves `smollm2`, by the command of the documents."""
    model = environment_folder() / "smollm2"
    try:
        find_vllm()
    except ConfigError as error:
        pytest.skip(f"{error}; `make test-vllm` installs it")
    if not model.is_dir():
        pytest.skip(f"there is no model in {model}; `make test-vllm` makes it")
    folder = tmp_path_factory.mktemp("serving")
    theirs = folder / "models" / "my-model"
    theirs.mkdir(parents=True)
    for path in model.iterdir():
        (theirs / path.name).symlink_to(path)
    # The model's own template leaves tools out.
    shutil.copy(HERMES_TEMPLATE, theirs / "chat_template.jinja")
    line = shlex.split(documented("palestra serve-model vllm"))
    line += ["--name", "smollm2", "--ready-timeout", str(READY_TIMEOUT_S)]
    line += ["--", "--max-num-seqs", "64", "--tool-strict-level", "parameter"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment()
    ) as serving:
        try:
            yield announced(serving)
        finally:
            serving.send_signal(signal.SIGINT)
            serving.wait(30)


@pytest.fixture(scope="session")
def rollouts(vllm_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of tool-calling rollouts of several turns, as many as PALESTRA_VLLM_ROLLOUTS says."""
    repeats = max(1, int(os.environ.get("PALESTRA_VLLM_ROLLOUTS", "20")) // 5)
    folder = tmp_path_factory.mktemp("rollouts")
    policy = folder / "policy.yaml"
    policy.write_text(
        "policy_model: {responses_api_models: {vllm_model: {entrypoint: app.py, model: smollm2, "
        f"base_url: '{vllm_url}', return_token_id_information: true}}}}}}\n"
    )
    root = Path(sys.modules["palestra"].__file__ or "").parent / "resources_servers" / ENVIRONMENT
    output = folder / "rollouts.jsonl"
    line = [sys.executable, "-c", "from palestra.cli.main import main; main()", "collect"]
    line += [f"+config_paths=[{policy},{root}/configs/{ENVIRONMENT}.yaml]", f"+agent_name={AGENT}"]
    line += [f"+input_jsonl_fpath={root}/data/example.jsonl", f"+output_jsonl_fpath={output}"]
    line += [f"+num_repeats={repeats}", "+num_samples_in_parallel=64"]
    line += ["+responses_create_params.tool_choice=required"]
    line += ["+responses_create_params.temperature=1.0"]
    line += ["+responses_create_params.max_output_tokens=96"]
    line += [f"++{AGENT}.responses_api_agents.simple_agent.max_steps=3"]
    subprocess.run(line, check=True, cwd=folder)
    return output
