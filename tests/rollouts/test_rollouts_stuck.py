"""Rollouts that go on after they were cancelled: given up, and the rest goes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import ScriptedAgent, paths, prepared, read_rows, task, write_rows

from palestra.rollouts import Accounting, Collector, Journal, Limits
from palestra.rollouts.admission import Admission
from palestra.rollouts.concurrency import ConcurrencyLimit
from palestra.schema import RolloutKey
from palestra.transport import RetryCount


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write_rows(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


class Stubborn:
    """Swallows its cancellations at some attempts of the first task, until it is let go."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self.let_go = asyncio.Event()

    def script(self, key: RolloutKey, attempt: int) -> Any:
        return self._hold() if key.task == 0 and attempt <= self._attempts else 1.0

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
    limits = Limits(
        in_flight=in_flight,
        rollout_timeout_s=0.1,
        max_attempts=2,
        attempt_pause_s=0,
        stuck_after_s=0.2,
    )

    async def main() -> None:
        stubborn = Stubborn(held)
        admission = Admission(ConcurrencyLimit(3, first=1), RetryCount()) if auto else None
        with Journal(run.paths) as journal:
            client = ScriptedAgent(stubborn.script).client
            collector = Collector(client, journal, accounting, limits=limits, admission=admission)
            async with asyncio.timeout(20):
                await collector.collect(run.rows(), count=run.remaining)
            assert collector.progress.in_flight == {}
            stubborn.let_go.set()
            await asyncio.sleep(0.05)  # what they bring now must count for nothing

    asyncio.run(main())
    accounting.check()
    return accounting


HOW = [{"in_flight": None}, {"in_flight": 1}, {"in_flight": 2}, {"in_flight": 1, "auto": True}]


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
