"""The project in the style of the field through `ng_run` and `ng_collect_rollouts`, word for word."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from field_project import CONFIGS, FIELD, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

REWARDS = {
    ("plain_agent", 0): 1.0,
    ("plain_agent", 1): 0.0,
    ("counter_agent", 2): 1.0,
    ("judged_agent", 3): 1.0,
}


def command(name: str, *arguments: str) -> list[str]:
    called = f"import sys; from palestra.cli.ng import {name}; sys.argv[0] = 'ng'; {name}()"
    return [sys.executable, "-B", "-c", called, *arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PALESTRA_RUN_DIR": str(tmp_path / "run"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def head(environment: dict[str, str]) -> Iterator[str]:
    """The override that leads to a running fleet's head server."""
    override = f"++head_server.port={free_port()}"
    fleet = subprocess.Popen(
        command("run", f"+config_paths=[{','.join(CONFIGS)}]", override),
        cwd=FIELD,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert fleet.stdout is not None
    said = []
    for line in fleet.stdout:  # ends with the process: the test's timeout bounds it
        said.append(line)
        if "servers ready!" in line:
            break
    else:
        pytest.fail("".join(said))
    yield override
    fleet.send_signal(signal.SIGINT)
    fleet.communicate(timeout=20)


def test_a_fleet_of_processes_collects_and_verifies(
    head: str, environment: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "out" / "rollouts.jsonl"
    collected = subprocess.run(
        command(
            "collect_rollouts",
            "+input_jsonl_fpath=data/rows.jsonl",
            f"+output_jsonl_fpath={output}",
            head,
        ),
        cwd=FIELD,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert collected.returncode == 0, collected.stdout + collected.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    found = {(row["agent_ref"]["name"], row["_ng_task_index"]): row["reward"] for row in rows}
    assert found == REWARDS
    metrics = json.loads(output.with_name("rollouts_aggregate_metrics.json").read_text())
    keys = {item["agent_ref"]["name"]: item["key_metrics"] for item in metrics}
    assert keys["plain_agent"] == {"pass@1[avg-of-1]/accuracy": 50.0}
