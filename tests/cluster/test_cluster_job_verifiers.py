"""Verifiers that never come back, in the job of a shard: it ends by itself and says why."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import CONFIGS, HANGING, World, driver, hanging_environment, model_server, world

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(180)]


def hanging(folder: Path, kind: str) -> World:
    """A run of four questions whose verifier does not come back from the third."""
    config = hanging_environment(folder, kind)
    made = world(folder, model_server(), driver(workdir=str(folder)))
    collect = dataclasses.replace(
        made.run.collect,
        config_paths=(str(config), CONFIGS[1]),
        collect_overrides=("++rollout_timeout=4",),
    )
    return made.write(collect=collect)


def tasks(path: Path) -> list[int]:
    return sorted(row["_ng_task_index"] for row in rows(path))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def failures(made: World) -> list[tuple[int, str, int]]:
    return [
        (row["_ng_task_index"], row["_ng_failure_class"], row["attempt"])
        for row in rows(made.files.shard("rollouts").failures)
    ]


def test_a_plain_verifier_that_hangs_costs_its_own_row_alone(tmp_path: Path) -> None:
    made = hanging(tmp_path, "def")

    code, said = made.supervise()

    assert (code, made.result()["status"]) == (0, "done"), said
    assert failures(made) == [(2, "verifier_error", 1)]
    assert tasks(made.files.shard("rollouts").output) == [0, 1, 3]
    assert (made.done("rollouts")["scored"], made.done("rollouts")["failed_terminal"]) == (3, 1)


def test_a_verifier_that_holds_its_job_ends_it_and_is_named(tmp_path: Path) -> None:
    made = hanging(tmp_path, "async def")

    code, said = made.supervise()

    assert code != 0, said
    assert made.result()["status"] == "failed"
    assert f"in verify, {tmp_path / HANGING}:" in str(made.result())
    assert failures(made) == [(2, "verifier_error", 1)]
