"""One vLLM for all tests here, started as a user starts it; without its environment they skip."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers import environment_folder, find_vllm
from palestra.responses_api_models.local_servers.vllm_command import HERMES_TEMPLATE

READY_TIMEOUT_S = 1500


@pytest.fixture(scope="session")
def vllm_url() -> Iterator[str]:
    """The base URL of a vLLM that serves `smollm2`."""
    model = environment_folder() / "smollm2"
    try:
        python = find_vllm(str(environment_folder() / "venv" / "bin" / "python")).python
    except ConfigError as error:
        pytest.skip(f"{error}; `make test-vllm` installs it")
    if not model.is_dir():
        pytest.skip(f"there is no model in {model}; `make test-vllm` makes it")
    line = [sys.executable, "-c", "from palestra.cli.main import main; main()"]
    line += ["serve-model", "vllm", str(model), "--python", str(python)]
    line += ["--name", "smollm2", "--chat-template", str(HERMES_TEMPLATE)]
    line += ["--max-model-len", "2048", "--ready-timeout", str(READY_TIMEOUT_S)]
    line += ["--", "--max-num-seqs", "64", "--tool-strict-level", "parameter"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ) as serving:
        try:
            yield _announced(serving)
        finally:
            serving.send_signal(signal.SIGINT)
            serving.wait(30)


def _announced(serving: "subprocess.Popen[str]") -> str:
    """The URL that `serve-model` says once it is ready."""
    for line in serving.stdout or ():
        if line.startswith("+policy_base_url="):
            return line.strip().partition("=")[2]
    pytest.fail(f"serve-model ended with exit code {serving.wait()}")
