"""Whole runs on this machine, with an endpoint that runs already and asks for a key."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import (
    CONFIGS,
    ENDPOINT_KEY,
    HANGING,
    SERVER_PROGRAM,
    hanging_environment,
    question,
)

from palestra.cluster import Submission, rollouts
from palestra.cluster.layout import RunFiles
from palestra.errors import RunFailed
from palestra.schema import read_jsonl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def collect(endpoint: str, **given: Any) -> Submission:
    asked: dict[str, Any] = {
        "config_paths": [
            "resources_servers/mcqa/configs/mcqa.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
        ],
        "input_file": "resources_servers/mcqa/data/example.jsonl",
        "agent_name": "mcqa_simple_agent",
        "output_dir": "out",
        "server_address": endpoint,
        "model": "scripted",
        "policy_api_key_env": "MY_KEY",
    }
    return rollouts(**{**asked, **given})


def palestra(*command: str) -> "subprocess.CompletedProcess[str]":
    """A command about the run that `collect` has submitted."""
    argv = [sys.executable, "-m", "palestra", "cluster", *command, "out"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextlib.contextmanager
def canary_sought_in_command_lines() -> Iterator[set[bytes]]:
    """Those that hold it, of all processes there are meanwhile."""
    found: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    if ENDPOINT_KEY.encode() in (line := path.read_bytes()):
                        found.add(line)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def test_a_key_reaches_the_endpoint_and_stands_nowhere(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", ENDPOINT_KEY)

    with canary_sought_in_command_lines() as found:
        collect(endpoint, num_random_seeds=2)
    assert found == set()
    again = collect(endpoint, num_random_seeds=2)

    files = RunFiles(tmp_path / "out")
    assert len(list(read_jsonl(files.merged.output))) == 10
    assert files.reward_profiling.exists()
    assert [job.name for job in again.run.jobs] == ["merge", "profile"]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if ENDPOINT_KEY.encode() in path.read_bytes()] == []


def test_a_wrong_key_fails_the_run_and_what_depends_on_it_says_why(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-wrong-0123456789")

    with pytest.raises(RunFailed, match=r"merge: depends on collect, which failed"):
        collect(endpoint, limit=1)


JUDGE = """
judge_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: ${judge_base_url}
      openai_api_key: ${judge_api_key}
      openai_model: ${judge_model_name}
"""


def test_each_job_starts_a_server_for_the_policy_and_one_for_the_judge(
    tmp_path: Path, endpoint: str
) -> None:
    (tmp_path / "judge.yaml").write_text(JUDGE)
    (tmp_path / "verdict").write_text("[[A=B]]")
    command = f"{sys.executable} {SERVER_PROGRAM} --host {{host}} --port {{port}}"
    judge = {
        "type": "generic",
        "model": "strict",
        "cpu": "true",
        "entrypoint": f"{command} --model strict --says {tmp_path / 'verdict'}",
    }

    submission = collect(
        endpoint,
        config_paths=[
            "resources_servers/equivalence_llm_judge/configs/equivalence_llm_judge.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
            "judge.yaml",
        ],
        input_file="resources_servers/equivalence_llm_judge/data/example.jsonl",
        agent_name="equivalence_llm_judge_simple_agent",
        serve_override="++equivalence_llm_judge.resources_servers.equivalence_llm_judge"
        ".judge_model_server.name=judge_model",
        server_address=None,
        policy_api_key_env=None,
        server_type="generic",
        server_cpu=True,
        server_entrypoint=command,
        server={"judge": judge},
        limit=2,
    )

    names = [component.name for component in submission.run.jobs[0].components]
    assert names == ["server", "server-judge", "driver"]
    scored = rows(RunFiles(tmp_path / "out").merged.output)
    assert [row["reward"] for row in scored] == [1.0, 1.0]


@pytest.mark.alone
def test_a_run_that_a_verifier_ended_goes_on_without_its_row(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", ENDPOINT_KEY)
    config = hanging_environment(tmp_path, "async def")
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps(question(n)) + "\n" for n in range(4))
    )
    limits = ("++rollout_timeout=4", "++max_attempts=2")
    paths = [str(config), CONFIGS[1]]
    with pytest.raises(RunFailed):
        collect(endpoint, config_paths=paths, input_file="questions.jsonl", extra=limits)
    status = palestra("status", "--json")
    assert status.returncode == 1
    assert f"in verify, {tmp_path / HANGING}:" in status.stdout, status.stdout + status.stderr

    again = palestra("retry-failed")

    files = RunFiles(tmp_path / "out")
    assert sorted(r["_ng_task_index"] for r in rows(files.merged.output)) == [0, 1, 3], again.stderr
    [failure] = rows(files.merged.failures)
    assert (failure["_ng_task_index"], failure["_ng_failure_class"]) == (2, "verifier_error")
    assert failure["attempt"] <= 2
