"""Rollouts let in while a moving limit leaves room."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from scripted_runs import ScriptedAgent, collect, paths, prepared, read_rows, settings, task
from scripted_runs import write_rows as write

from palestra.errors import InfraError
from palestra.rollouts import Progress, run
from palestra.rollouts.admission import Admission
from palestra.rollouts.concurrency import ConcurrencyLimit
from palestra.rollouts.tasks import BoundedTasks
from palestra.schema import RolloutKey
from palestra.transport import RetryCount


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


async def admitted(
    admission: Admission, rows: Iterator[int], work: Callable[[int], Awaitable[None]]
) -> None:
    async with BoundedTasks() as tasks:
        await admission.run(rows, work, tasks)


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


def test_requests_sent_again_lower_the_limit_before_any_rollout_has_ended() -> None:
    retries = RetryCount()
    told = asyncio.Event()

    def clock() -> float:
        told.set()  # it is asked for the time of what it tells
        return 0.0

    async def work(_row: int) -> None:
        retries.retries += 1
        await told.wait()

    admission = Admission(ConcurrencyLimit(100), retries, clock=clock)
    asyncio.run(asyncio.wait_for(admitted(admission, iter(range(16)), work), 20))
    assert retries.retries == 16
    assert admission.limit.limit == 11


def test_a_row_is_read_only_when_it_can_run() -> None:
    read: list[int] = []

    def rows() -> Iterator[int]:
        for row in range(100):
            read.append(row)
            yield row

    async def main() -> None:
        admission = Admission(ConcurrencyLimit(100, first=4), RetryCount())
        running = asyncio.create_task(admitted(admission, rows(), lambda _row: asyncio.sleep(60)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(main())
    assert read == [0, 1, 2, 3]


def test_a_bug_in_one_rollout_ends_all() -> None:
    async def work(row: int) -> None:
        if row == 3:
            raise ZeroDivisionError
        await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(admitted(Admission(ConcurrencyLimit(9), RetryCount()), iter(range(9)), work))
