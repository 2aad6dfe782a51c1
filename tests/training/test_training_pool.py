"""The pool by itself: whatever an attempt brings, its rollout has an outcome and the others go on."""

import asyncio
import time
from typing import Any

import pytest

from palestra.schema import RolloutKey
from palestra.training.jobs import Attempted, TrainingJob
from palestra.training.memory import Memory, MemoryGuard
from palestra.training.outcomes import Failed, FailureClass
from palestra.training.policies import OnIncomplete
from palestra.training.pool import Pool
from palestra.training.requests import RolloutRequest
from palestra.training.settings import ClientSettings

pytestmark = pytest.mark.anyio

NO_OUTCOME: Any = "no outcome at all"
SETTINGS = ClientSettings(on_incomplete=OnIncomplete.MASK, min_fraction=0.1, in_flight=1).checked()


def asked_for(number: int, run: str) -> TrainingJob:
    return TrainingJob(
        key=RolloutKey(number, 0),
        request=RolloutRequest(row={}, task_id=number),
        size=1,
        run=run,
        number=number,
        submitted=time.monotonic(),
    )


def failed(job: TrainingJob) -> Failed:
    return Failed(
        task_id=job.request.task_id,
        rollout_index=0,
        group_id=job.request.group,
        failure=FailureClass.VERIFIER_ERROR,
        layer="verifier",
        retriable=False,
        attempts=job.attempt,
        message="it raised",
    )


async def ended(pool: Pool, run: str, numbers: list[int]) -> list[FailureClass]:
    """How the rollouts of one submission failed, once all of them have ended."""
    lane = pool.add(run, [asked_for(number, run) for number in numbers], SETTINGS)
    async with asyncio.timeout(10):
        while lane.running or lane.batch.pending:
            lane.changed.clear()
            await lane.changed.wait()
    await asyncio.sleep(0.01)  # the task that ran the last one has ended as well
    outcomes = {one.task_id: one for one in lane.batch.leftover()}
    return [one.failure for one in map(outcomes.get, numbers) if isinstance(one, Failed)]


async def test_a_bug_in_settling_one_rollout_ends_that_one_and_others_can_be_asked_for() -> None:
    async def run(_pool: Pool, job: TrainingJob) -> Attempted:
        return Attempted(NO_OUTCOME if job.number == 0 else failed(job))

    pool = Pool(SETTINGS, MemoryGuard(0.0, Memory(), time.monotonic), run)

    assert await ended(pool, "first", [0]) == [FailureClass.INFRA_ERROR]
    assert await ended(pool, "second", [1, 2]) == [FailureClass.VERIFIER_ERROR] * 2
