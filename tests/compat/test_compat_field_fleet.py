"""The project in the style of the field through `ng_run` and `ng_collect_rollouts`, word for word."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from field_fleets import ng_command, running_fleet
from field_project import CONFIGS, FIELD, copied_project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

REWARDS = {
    ("plain_agent", 0): 1.0,
    ("plain_agent", 1): 0.0,
    ("counter_agent", 2): 1.0,
    ("judged_agent", 3): 1.0,
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PALESTRA_RUN_DIR": str(tmp_path / "run"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def head(environment: dict[str, str]) -> Iterator[str]:
    """The override that leads to a running fleet's head server."""
    with running_fleet(FIELD, environment, CONFIGS) as (override, _):
        yield override


def collected(
    project: Path, environment: dict[str, str], output: Path, *overrides: str
) -> subprocess.CompletedProcess[str]:
    """The end of `ng_collect_rollouts` with the rows of the project."""
    rows = ("+input_jsonl_fpath=data/rows.jsonl", f"+output_jsonl_fpath={output}")
    return subprocess.run(
        ng_command("collect_rollouts", *rows, *overrides),
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_fleet_of_processes_collects_and_verifies(
    head: str, environment: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "out" / "rollouts.jsonl"
    done = collected(FIELD, environment, output, head)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    found = {(row["agent_ref"]["name"], row["_ng_task_index"]): row["reward"] for row in rows}
    assert found == REWARDS
    metrics = json.loads(output.with_name("rollouts_aggregate_metrics.json").read_text())
    keys = {item["agent_ref"]["name"]: item["key_metrics"] for item in metrics}
    assert keys["plain_agent"] == {"pass@1[avg-of-1]/accuracy": 50.0}


def test_a_verifier_that_blocks_its_process_costs_its_own_rollout_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    project, output = copied_project(tmp_path / "project"), tmp_path / "rollouts.jsonl"
    app = project / "resources_servers/plain_match/app.py"
    source = app.read_text()
    blocking = 'if answer == "Rome":\n            __import__("time").sleep(60)\n        expected ='
    app.write_text(source.replace("expected =", blocking))
    [right, blocked, *_] = (FIELD / "data/rows.jsonl").read_text().splitlines()
    (project / "data/rows.jsonl").write_text(f"{right}\n{blocked}\n{right}\n{right}")
    attempts = ("+rollout_timeout=4", "+max_attempts=1", "+num_samples_in_parallel=3")

    with running_fleet(project, environment, CONFIGS) as (head, fleet):
        done = collected(project, environment, output, head, *attempts)
        fleet.wait(timeout=20)
    with running_fleet(project, environment, CONFIGS) as (head, _):
        collected(project, environment, output, head, *attempts, "+resume_from_cache=true")

    assert "rollout 1:" in done.stderr, done.stderr
    failures = output.with_name("rollouts_failures.jsonl").read_text().splitlines()
    finals = [row for row in map(json.loads, failures) if row["_ng_failure_terminal"]]
    assert [(row["_ng_task_index"], row["_ng_failure_class"]) for row in finals] == [
        (1, "verifier_error")
    ]
    scored = [json.loads(line)["_ng_task_index"] for line in output.read_text().splitlines()]
    assert scored == [0, 0, 0]
