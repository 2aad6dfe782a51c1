"""The commands of the page about token ids, each as it stands there.

`palestra serve-model vllm` is what `vllm_url` runs, with a name and a batch size at its end.
"""

import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from token_id_commands import DOCUMENT, announced, documented, environment

from palestra.errors import ConfigError
from palestra.responses_api_models.local_model.running import require_engine
from palestra.responses_api_models.local_model.weights import find_weights

pytestmark = [pytest.mark.vllm, pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(3600)]

CHECK = "python -m palestra.responses_api_models.vllm_model.on_policy"
RUN_HERE = [CHECK, "palestra serve-model vllm", "palestra serve-model llama-cpp"]


def test_every_command_of_the_page_is_run_here() -> None:
    typed = [line[2:] for line in DOCUMENT.read_text().splitlines() if line.startswith("$ ")]

    assert sorted(typed) == sorted(documented(beginning) for beginning in RUN_HERE)


def test_the_documented_check_finds_real_rollouts_on_policy(rollouts: Path) -> None:
    line = ["bash", "-c", documented(CHECK)]

    done = subprocess.run(
        line, cwd=rollouts.parent, env=environment(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 are marked as broken" in done.stdout


def test_the_documented_check_fails_for_rollouts_that_were_edited(
    rollouts: Path, tmp_path: Path
) -> None:
    (tmp_path / "rollouts.jsonl").write_text(rollouts.read_text().replace("Raise the", "Lower the"))
    line = ["bash", "-c", documented(CHECK)]

    done = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr


def test_the_documented_llama_cpp_server_announces_itself_and_ends(tmp_path: Path) -> None:
    try:
        require_engine()
        find_weights(None)
    except ConfigError as error:
        pytest.skip(str(error))
    line = shlex.split(documented("palestra serve-model llama-cpp"))

    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()
    ) as serving:
        try:
            url = announced(serving)
        finally:
            serving.send_signal(signal.SIGINT)
            ended = serving.wait(30)

    assert url.endswith("/v1")
    assert ended == 0
