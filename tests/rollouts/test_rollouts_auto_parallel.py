"""Rollouts let in while a moving limit leaves room."""

import asyncio
from pathlib import Path

import pytest
from scripted_runs import ScriptedAgent, collect, paths, prepared, read_rows, settings, task
from scripted_runs import write_rows as write

from palestra.errors import InfraError
from palestra.rollouts import Progress, run
from palestra.schema import RolloutKey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


async def turn() -> float:
    await asyncio.sleep(0)
    return 1.0


def test_rollouts_begin_with_few_at_once_and_all_are_run(folder: Path) -> None:
    agent = ScriptedAgent(lambda _key, _attempt: turn())
    collected = collect(folder, agent, num_repeats=50, num_samples_in_parallel="auto")

    assert collected.accounting.line() == "requested 150 = scored 150 + failed 0"
    assert len(read_rows(paths(folder).output)) == 150
    assert agent.most_running >= 16


def test_failures_of_an_overload_lower_the_limit_and_lose_nobody(folder: Path) -> None:
    def script(_key: RolloutKey, attempt: int) -> float:
        if attempt == 1:
            raise InfraError("connection reset")
        return 1.0

    seen: list[Progress] = []
    ready = prepared(folder, num_repeats=20)
    auto = settings(folder, num_repeats=20, num_samples_in_parallel="auto")
    collected = asyncio.run(run(ready, auto, ScriptedAgent(script).client, on_start=seen.append))

    assert collected.accounting.line() == "requested 60 = scored 60 + failed 0"
    assert seen[0].limit is not None
    assert seen[0].limit.limit < 16
