"""Calls as they stand in the documents of the field's pipeline, in an empty folder."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palestra.cluster import Submission, nemo_gym_rollouts, wrap_arguments
from palestra.errors import ConfigError

KEY = "sk-canary-0123456789"
GIVEN: dict[str, Any] = {
    "config_paths": "resources_servers/mcqa/configs/mcqa.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
    "input_file": "resources_servers/mcqa/data/example.jsonl",
    "output_dir": "out",
}
HOSTED = {"server_address": "http://host.invalid/v1", "model": "m"}
STARTED = {"server_type": "vllm", "server_gpus": 8, "model": "m"}
OVERRIDES = (
    "+agent_name=mcqa_simple_agent +num_samples_in_parallel=64 "
    "+responses_create_params.temperature=1.0"
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def tried(overrides: str = OVERRIDES, **options: Any) -> Submission:
    """A dry run of the field's call."""
    ctx = wrap_arguments(overrides)
    return nemo_gym_rollouts(ctx=ctx, **{**GIVEN, **HOSTED, "dry_run": True, **options})


def test_overrides_that_options_decide_fill_them() -> None:
    collect = tried(num_samples_in_parallel=64).run.collect

    assert (collect.agent_name, collect.num_samples_in_parallel) == ("mcqa_simple_agent", 64)
    assert collect.collect_overrides == ("+responses_create_params.temperature=1.0",)
    with pytest.raises(ConfigError, match="--num-samples-in-parallel is given more than once"):
        tried(num_samples_in_parallel=8)


@pytest.mark.slow
@pytest.mark.parametrize(("beside", "code"), [([], 0), (["--num_samples_in_parallel=8"], 2)])
def test_overrides_at_the_end_of_the_command_line_do_so_too(beside: list[str], code: int) -> None:
    options = [f"--{name}={value}" for name, value in {**GIVEN, **HOSTED}.items()]
    command = Path(sys.executable).with_name("nemo_gym_rollouts")

    done = subprocess.run(
        [command, *options, "--dry_run", *beside, *OVERRIDES.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert ("--num-samples-in-parallel" in done.stderr) == bool(code)


def test_whole_nodes_of_a_partition_without_a_cluster_are_a_warning() -> None:
    notices = tried(exclusive=True, partition="gpu").notices

    assert [text for text in notices if "--partition, --exclusive" in text]


def test_a_placeholder_is_a_key_and_a_real_key_only_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tried(**{**HOSTED, "server_address": None, **STARTED}, policy_api_key="dummy").run
    assert not started.collect.serve_overrides

    for where in ({}, {"server_address": None, **STARTED}):
        with pytest.raises(ConfigError, match="--policy-api-key-env") as refused:
            tried(**where, policy_api_key=KEY, output_dir="other")
        assert KEY not in str(refused.value)
    assert not (tmp_path / "other").exists()

    # As `--policy_api_key=$MY_KEY` gives it.
    monkeypatch.setenv("MY_KEY", KEY)
    assert tried(policy_api_key=KEY, output_dir="third").run.policy.api_key_env == "MY_KEY"
