"""One attempt at a rollout of a `FleetPool`: on the fleet with the least load, or on another one."""

import asyncio
import time
from collections.abc import Sequence
from typing import final

from msgspec.structs import replace

from palestra.errors import BadInput, InputDataError, Layer
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.failing import failed, not_repeatable
from palestra.training.fleets import FleetLost, Interrupted, PooledFleet
from palestra.training.jobs import Attempted, TrainingJob
from palestra.training.outcomes import Completed, Evidence, Failed, FailureClass, Outcome
from palestra.training.pool import Pool
from palestra.training.reading import size_of
from palestra.training.requests import RolloutRequest
from palestra.training.running import too_late, violated
from palestra.training.settings import Attempts


@final
class FleetAttempts:
    """Makes the attempts of a pool. `budget`: how often a rollout may be lost with its fleet."""

    def __init__(self, fleets: Sequence[PooledFleet], budget: Attempts) -> None:
        self._fleets = fleets
        self._most_attempts = budget.most.get(FailureClass.INFRA_ERROR, 1)
        self._changed = asyncio.Event()
        """Set when a fleet may have become usable."""

    async def attempt(self, pool: Pool, job: TrainingJob) -> Attempted:
        """Run one rollout on one fleet. Return its outcome, or a pause before another fleet."""
        fleet = None if job.time_is_up else await self._least_loaded(job)
        if fleet is None:
            return Attempted(too_late(job))
        lost = False
        try:
            outcome = _counted(await fleet.run(_in_time(job), job.run), job, fleet)
        except Interrupted:
            job.spared += 1
            return Attempted(pause_s=0.0)
        except (InvalidLogprobs, TokenDiscontinuity) as violation:
            violation.outcomes = ()  # of the fleet's submission, which is none of the trainer's
            return Attempted(violated(job, violation), violation=violation)
        except InputDataError as error:
            outcome = _refused(job, error, fleet)
        except FleetLost as error:
            outcome, lost = _lost_with(error, job, fleet), True
        if isinstance(outcome, Completed):
            return Attempted(outcome, size_of(outcome, job.size))
        if outcome.failure is FailureClass.INFRA_ERROR:
            await self.look(pool, fleet)
            lost = lost or not fleet.is_usable
        return self._lost(pool, job, outcome) if lost else Attempted(outcome)

    async def look(self, pool: Pool, fleet: PooledFleet) -> None:
        """Find out whether a fleet can be used. What is wrong with its settings makes it unusable."""
        try:
            await fleet.look(pool.weights)
        except BadInput as error:
            fleet.reason = error.message
        self.note_change()

    def note_change(self) -> None:
        """Let attempts that wait for a fleet see whether one can be used."""
        if any(fleet.is_usable for fleet in self._fleets):
            self._changed.set()

    def _lost(self, pool: Pool, job: TrainingJob, outcome: Failed) -> Attempted:
        """Return what follows when a fleet was lost with a rollout: another fleet, if that is safe."""
        pool.failing(outcome)
        if job.attempt - job.spared >= self._most_attempts or job.time_is_up:
            return Attempted(outcome)
        if not outcome.retriable:
            return Attempted(not_repeatable(outcome))
        job.last_failure = outcome
        return Attempted(pause_s=0.0)

    async def _least_loaded(self, job: TrainingJob) -> PooledFleet | None:
        """Return the usable fleet with the least load. Waits for one; None at the job's deadline."""
        while True:
            usable = [fleet for fleet in self._fleets if fleet.is_usable]
            if usable:
                return min(usable, key=lambda fleet: fleet.load)
            left_s = None if job.deadline is None else job.deadline - time.monotonic()
            self._changed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                return None


def _in_time(job: TrainingJob) -> RolloutRequest:
    """Return the request with the time that is left for it."""
    if job.deadline is None:
        return job.request
    return replace(job.request, deadline_s=max(0.001, job.deadline - time.monotonic()))


def _counted(outcome: Outcome, job: TrainingJob, fleet: PooledFleet) -> Outcome:
    """Return the outcome with the attempts on other fleets; a failure with what happened there."""
    if not isinstance(outcome, Completed):
        return _counted_failure(outcome, job, fleet)
    last = job.last_failure
    return outcome if last is None else replace(outcome, attempt=outcome.attempt + last.attempts)


def _counted_failure(outcome: Failed, job: TrainingJob, fleet: PooledFleet) -> Failed:
    last, evidence = job.last_failure, outcome.evidence
    where = " > ".join(filter(None, (f"fleet {fleet.name}", evidence.where)))
    if last is None:
        return replace(outcome, evidence=replace(evidence, where=where))
    line = f"attempt {last.attempts} was lost ({last.evidence.where}): {last.message}"
    log_tail = [*evidence.log_tail, *last.evidence.log_tail, line]
    return replace(
        outcome,
        attempts=outcome.attempts + last.attempts,
        evidence=replace(evidence, where=where, log_tail=log_tail),
    )


def _lost_with(error: FleetLost, job: TrainingJob, fleet: PooledFleet) -> Failed:
    outcome = failed(
        job.request,
        FailureClass.INFRA_ERROR,
        str(error),
        retriable=fleet.repeatable or not error.may_have_begun,
        attempts=int(error.may_have_begun),
    )
    return _counted_failure(outcome, job, fleet)


def _refused(job: TrainingJob, error: InputDataError, fleet: PooledFleet) -> Failed:
    return failed(
        job.request,
        FailureClass.DATA_ERROR,
        error.message,
        layer=Layer.DATA,
        retriable=False,
        evidence=Evidence(where=f"fleet {fleet.name}", hint=error.hint),
    )
