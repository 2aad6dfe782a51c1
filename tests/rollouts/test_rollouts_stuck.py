"""Rollouts that go on after they were cancelled: given up, and the rest goes on."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import ScriptedAgent, paths, prepared, read_rows, task, write_rows

from palestra.engine import Accounting, ConcurrencyLimit, JobRoom
from palestra.rollouts import CollectionLimits, Collector, Journal
from palestra.schema import RolloutKey
from palestra.transport import RetryCount


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write_rows(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


class Stubborn:
    """Swallows its cancellations at some attempts of the first tasks, until it is let go."""

    def __init__(self, attempts: int, tasks: int = 1) -> None:
        self._attempts = attempts
        self._tasks = tasks
        self.let_go = asyncio.Event()

    def script(self, key: RolloutKey, attempt: int) -> Any:
        return self._hold() if key.task < self._tasks and attempt <= self._attempts else 1.0

    async def _hold(self) -> float:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return 0.5


def collected(folder: Path, held: int, *, in_flight: int | None, auto: bool = False) -> Accounting:
    run = prepared(folder)
    accounting = Accounting(run.remaining)
    limits = CollectionLimits(
        in_flight=in_flight,
        rollout_timeout_s=0.1,
        max_attempts=2,
        attempt_pause_s=0,
        stuck_after_s=0.2,
    )

    async def main() -> None:
        stubborn = Stubborn(held)
        room = JobRoom(ConcurrencyLimit(3, first=1), RetryCount()) if auto else None
        with Journal(run.paths) as journal:
            client = ScriptedAgent(stubborn.script).client
            collector = Collector(client, journal, accounting, limits=limits, room=room)
            async with asyncio.timeout(20):
                await collector.collect(run.rows(), count=run.remaining)
            assert collector.progress.in_flight == {}
            stubborn.let_go.set()
            await asyncio.sleep(0.05)  # what they bring now must count for nothing

    asyncio.run(main())
    accounting.check()
    return accounting


async def holds(duration_s: float) -> float:
    """Ends after so long, however often it is cancelled."""
    loop = asyncio.get_running_loop()
    end = loop.time() + duration_s
    while (left_s := end - loop.time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(left_s)
    return 0.5


async def takes(duration_s: float) -> float:
    await asyncio.sleep(duration_s)
    return 1.0


def short(**changes: Any) -> CollectionLimits:
    given = {"rollout_timeout_s": 0.1, "attempt_pause_s": 0, "stuck_after_s": 0.2, **changes}
    return CollectionLimits(**given)


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_second_attempt_left_behind_that_ends_later_loses_no_row(
    tmp_path: Path, in_flight: int
) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(number) for number in range(12)])
    run = prepared(tmp_path)
    accounting = Accounting(run.remaining)
    agent = ScriptedAgent(lambda key, _attempt: holds(1.2) if key.task == 0 else takes(0.08))

    async def main() -> None:
        with Journal(run.paths) as journal:
            limits = short(in_flight=in_flight, max_attempts=2)
            collector = Collector(agent.client, journal, accounting, limits=limits)
            async with asyncio.timeout(20):
                await collector.collect(run.rows(), count=run.remaining)
            assert collector.progress.in_flight == {}

    asyncio.run(main())
    accounting.check()
    assert accounting.line() == "requested 12 = scored 11 + failed 1 (timeout 1)"


@pytest.mark.slow
def test_rollouts_left_behind_do_not_move_a_limit_of_the_moment(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(number) for number in range(8)])
    run = prepared(tmp_path)
    accounting = Accounting(run.remaining)
    seen: list[int] = []

    async def healthy() -> float:
        seen.append(agent.running - stuck)
        return await takes(0.02)

    stuck = 0
    stubborn = Stubborn(attempts=2, tasks=2)

    def script(key: RolloutKey, attempt: int) -> Any:
        nonlocal stuck
        if key.task < 2:
            stuck += 1
            return stubborn.script(key, attempt)
        return healthy()

    agent = ScriptedAgent(script)

    async def main() -> None:
        room = JobRoom(ConcurrencyLimit(1, first=1), RetryCount())
        with Journal(run.paths) as journal:
            collector = Collector(
                agent.client,
                journal,
                accounting,
                limits=short(max_attempts=2),
                room=room,
            )
            async with asyncio.timeout(20):
                await collector.collect(run.rows(), count=run.remaining)
            stubborn.let_go.set()

    asyncio.run(main())
    accounting.check()
    assert seen == [1] * 6


@pytest.mark.slow
def test_nothing_is_begun_in_the_place_of_a_stuck_rollout_once_the_run_is_stopped(
    folder: Path,
) -> None:
    run = prepared(folder)
    begun: list[tuple[int, int]] = []

    def script(key: RolloutKey, attempt: int) -> Any:
        begun.append((key.task, attempt))
        return holds(2.2)

    async def main() -> None:
        with Journal(run.paths) as journal:
            collector = Collector(
                ScriptedAgent(script).client,
                journal,
                Accounting(run.remaining),
                limits=short(in_flight=1, max_attempts=2, stuck_after_s=0.6),
            )
            collecting = asyncio.create_task(collector.collect(run.rows(), count=run.remaining))
            await asyncio.sleep(0.5)  # past the deadline, before it is left behind
            collecting.cancel()
            await asyncio.wait({collecting})
            assert collecting.cancelled()

    asyncio.run(main())
    assert begun == [(0, 1)]


HOW = [{"in_flight": None}, {"in_flight": 1}, {"in_flight": 2}, {"in_flight": 1, "auto": True}]


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_a_rollout_that_cannot_be_stopped_fails_and_the_others_are_run(
    folder: Path, how: dict[str, Any]
) -> None:
    accounting = collected(folder, 2, **how)

    assert accounting.line() == "requested 3 = scored 2 + failed 1 (timeout 1)"
    assert [row["attempt"] for row in read_rows(paths(folder).failures)] == [1, 2]
    assert len(read_rows(paths(folder).output)) == 2


@pytest.mark.parametrize("how", HOW)
def test_its_next_attempt_may_succeed(folder: Path, how: dict[str, Any]) -> None:
    accounting = collected(folder, 1, **how)

    assert accounting.line() == "requested 3 = scored 3 + failed 0"
    [row] = read_rows(paths(folder).failures)
    assert "it goes on although it was cancelled" in row["message"]
    assert "asyncio.CancelledError" in row["hint"]
