"""The pool: gives the engine as many jobs as the limits allow, and records how each rollout ends.

The settings limit the rollouts in flight, the outcomes that wait to be taken, the bytes of both,
and memory. `palestra.training.running` runs an attempt; the pool decides what a failure means for
its batch.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final, final

from palestra.engine import Engine, JobStage
from palestra.training.batch import INTENDED, Batch, Halt, Lane
from palestra.training.errors import BatchFailed
from palestra.training.failing import failed
from palestra.training.groups import Group
from palestra.training.jobs import RETRYING, Attempted, TrainingJob
from palestra.training.memory import MemoryGuard
from palestra.training.outcomes import Completed, Evidence, Failed, FailureClass, Outcome
from palestra.training.policies import OnIncomplete
from palestra.training.requests import Key
from palestra.training.settings import ClientSettings, OnStale
from palestra.training.staleness import stale, too_old

logger = logging.getLogger("palestra.training")

LOOK_AGAIN_S: Final = 0.25
"""Seconds between two checks of memory while low memory keeps rollouts from starting."""
_REPORT_IT: Final = "(a bug in Palestra: please report it)"


@final
class Pool:
    """Takes jobs and returns outcomes: an engine's `Work`, on one event loop.

    `run` makes one attempt. An error that it raises only affects its own rollout. `may_repeat`:
    whether an attempt that began may be followed by another one, on another fleet.
    """

    def __init__(
        self,
        settings: ClientSettings,
        guard: MemoryGuard,
        run: Callable[["Pool", TrainingJob], Awaitable[Attempted]],
        *,
        may_repeat: Callable[[TrainingJob], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._run = run
        self._may_repeat = may_repeat
        self._clock = clock
        self._engine: Engine[TrainingJob, Attempted] = Engine(self, on_left=self._job_left)
        self.lanes: dict[str, Lane] = {}
        self._bytes = 0
        self._largest = 0
        """The largest outcome of late."""
        self.paused = False
        self.weights: int | None = None
        self.death: Halt | None = None
        """Why nothing will ever come back."""
        self.stuck: Halt | None = None
        """Why nothing comes back for now."""
        self.held_back = ""
        self.last_failure = ""
        self._seen_ids = False
        self._again: asyncio.TimerHandle | None = None
        self._closed = False

    # In

    def add(self, run: str, jobs: list[TrainingJob], settings: ClientSettings) -> Lane:
        """Add a submission with its settings, and return its lane."""
        queue = sorted(jobs)  # which is a heap
        lane = self.lanes[run] = Lane(Batch(jobs, settings))
        halt = self.death or self.stuck
        if halt is not None:
            self._bury(lane, halt)
            return lane
        loop = asyncio.get_running_loop()
        lane.queue = queue
        for job in jobs:
            if job.deadline is not None:
                wait_s = job.deadline - self._clock()
                lane.timers.append(loop.call_later(wait_s, self._expire, lane, job))
        self.pump()
        return lane

    def pump(self) -> None:
        """Start as many rollouts as the limits allow."""
        self._engine.fill()

    def take(self, running: int, /) -> TrainingJob | None:
        """Return the next job to start; None when there is none or the limits do not allow it."""
        self.held_back = ""
        job = self._next()
        if job is None:
            if any(lane.head() for lane in self.lanes.values()):
                self.held_back = "max_waiting"
            return None
        lane = self.lanes[job.run]
        self.held_back = self._no_room(lane, job, running)
        if self.held_back:
            if self.held_back.startswith("memory") and self._again is None:
                self._again = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
            return None
        heapq.heappop(lane.queue)
        lane.running += 1
        job.started, job.weights = self._clock(), self.weights
        job.reserved = self._expected(job)
        self._bytes += job.reserved
        return job

    def _next(self) -> TrainingJob | None:
        """Return the next job to start, without batches that have `max_waiting` outcomes waiting."""
        max_waiting = self._settings.max_waiting
        heads = (
            lane.head() for lane in self.lanes.values() if len(lane.batch.arrived) < max_waiting
        )
        return min((job for job in heads if job is not None), default=None)

    def _look_again(self) -> None:
        self._again = None
        self.pump()

    def _no_room(self, lane: Lane, job: TrainingJob, running: int) -> str:
        """Return why a rollout cannot start now; "" when it can."""
        if self.paused or self.death is not None:
            return "paused" if self.paused else "the servers are gone"
        if running >= self._settings.in_flight:
            return "in_flight"
        # One at a time, whatever it takes: waiting for nothing would be for ever.
        if not running and not lane.batch.arrived:
            return ""
        bytes_needed = self._bytes + lane.batch.waiting_bytes + self._expected(job)
        if bytes_needed > self._settings.max_bytes:
            return "bytes"
        return self._guard.low()

    def _expected(self, job: TrainingJob) -> int:
        return max(job.size, self._largest)

    # The attempts

    async def attempt(self, job: TrainingJob, /) -> Attempted:
        """Make one attempt and return its result. Raises CancelledError only when the pool
        cancelled the job.
        """
        try:
            return await self._run(self, job)
        except asyncio.CancelledError:
            if self._closed or job.state is not JobStage.RUNNING:
                raise
            if job.task is not None:
                job.task.uncancel()
            return self._lost(
                job,
                "the code of a rollout cancelled the task that runs it: look for "
                "asyncio.current_task().cancel() in agents, tools and verifiers",
            )
        except Exception as error:  # a bug of ours: told to whoever waits
            logger.exception("rollout %s", job.request.key)
            return self._lost(job, f"{type(error).__name__}: {error} {_REPORT_IT}")

    def settle(self, job: TrainingJob, result: Attempted, /) -> float | None:
        """Apply an attempt's result to its rollout and batch. Return the pause before another
        attempt; None when there is none.
        """
        try:
            return self._settle(job, result)
        except Exception:  # a bug of ours ends this rollout, and not the engine with all others
            logger.exception("rollout %s", job.request.key)
            return None

    def _settle(self, job: TrainingJob, result: Attempted) -> float | None:
        lane = self.lanes.get(job.run)
        if lane is None or lane.batch.has_ended(job):
            return None
        if result.pause_s is not None:
            lane.batch.retried += 1
            return result.pause_s
        outcome = result.outcome or _without_outcome(job)
        if result.violation is None:
            self._end(lane, outcome, result.size)
        else:
            # The broken rule ends the batch, whatever its policy for failures is.
            lane.batch.settle(outcome)
            self.fail(lane, result.violation)
        return None

    def abandoned(self, job: TrainingJob, /) -> Attempted:
        """Return the failure of an attempt that ignores its cancellation."""
        return self._lost(
            job,
            f"it goes on although it was cancelled; it was awaiting {job.describe()}: "
            "code there swallows asyncio.CancelledError",
            FailureClass.TIMEOUT,
        )

    def _lost(
        self,
        job: TrainingJob,
        message: str,
        failure: FailureClass = FailureClass.INFRA_ERROR,
    ) -> Attempted:
        return Attempted(
            failed(job.request, failure, message, retriable=False, attempts=job.attempt)
        )

    def _job_left(self, job: TrainingJob) -> None:
        """Release the job's resources: its task has ended."""
        self._bytes -= job.reserved
        lane = self.lanes.get(job.run)
        if lane is not None:
            if not lane.batch.has_ended(job):  # somebody waits for it
                self._end(
                    lane, _without_outcome(job, "the client was closed" if self._closed else "")
                )
            lane.running -= 1
            lane.changed.set()
        self.pump()

    # Out

    def _end(self, lane: Lane, outcome: Outcome, size: int = 0) -> None:
        """Record a rollout's outcome, and apply the policy for it to the batch."""
        if not lane.batch.settle(outcome, size):
            return
        lane.changed.set()
        if isinstance(outcome, Completed):
            self._seen_ids = self._seen_ids or bool(outcome.chains)
            self._largest = max(size, self._largest * 15 // 16)
        elif outcome.failure not in INTENDED:
            self.failing(outcome)
            self._failed(lane, outcome)

    def _failed(self, lane: Lane, outcome: Failed) -> None:
        policy = lane.batch.policy_for(outcome)
        if policy is OnIncomplete.RAISE:
            # What is missing is said before the rest is stopped for it.
            self.fail(lane, lane.batch.incomplete(failure=outcome))
            return
        if policy is OnIncomplete.DROP_GROUP:
            self._drop(lane, outcome)
        self._check_share(lane)

    def _check_share(self, lane: Lane) -> None:
        """End a batch when too few rollouts can come back, under every policy."""
        if lane.batch.error is None and lane.batch.too_few:
            self.fail(lane, lane.batch.incomplete(short=True))

    def _drop(self, lane: Lane, outcome: Failed) -> None:
        if not lane.batch.hopeless_group(outcome.group_id):
            return
        why = f"rollout {outcome.key} failed ({outcome.failure.value}): {outcome.message}"
        others_of_group = lane.batch.drop_group(outcome.group_id, why)
        self.cancel(lane, others_of_group, f"its group was dropped: {why}")

    def fail(self, lane: Lane, error: BatchFailed) -> None:
        """End the batch with `error`, unless it has an error already."""
        if lane.batch.error is None:
            lane.batch.error = error
        self.cancel(lane, lane.batch.unfinished(), f"the batch has failed: {error.message}")
        lane.changed.set()

    def next_outcome(self, lane: Lane) -> Outcome | None:
        """Return the next waiting outcome; None when none waits."""
        outcome = lane.batch.take(self.weights)
        if self.held_back != "in_flight":
            self.pump()
        return outcome

    def at_its_end(self, lane: Lane) -> BatchFailed | None:
        """Return the error of a batch whose outcomes have all been taken; None when it has none."""
        if lane.batch.came_to_nothing:
            return lane.batch.incomplete()
        return lane.batch.blind(seen_before=self._seen_ids)

    def all_of(self, lane: Lane, returned: dict[Key, Outcome]) -> list[Outcome]:
        """Return a batch's taken outcomes, updated for dropped groups and stale weights."""
        outcomes = lane.batch.all_of(returned, self.weights)
        self._check_share(lane)
        return outcomes

    def group(self, lane: Lane, group: int | str, returned: dict[Key, Outcome]) -> Group | None:
        """Return a group's taken outcomes, updated for stale weights; None when the group is not
        handed out.
        """
        members = lane.batch.group_of(group, returned, self.weights)
        self._check_share(lane)
        return members

    def failing(self, failure: Failed) -> None:
        """Record the failure of an attempt, whether or not it is retried."""
        self.last_failure = f"rollout {failure.key}, attempt {failure.attempts}: {failure.message}"

    @property
    def retrying(self) -> str:
        """A text about the requests that rollouts in flight are retrying; empty when there are
        none.
        """
        retrying_jobs = [job for job in self.in_flight if job.phase == RETRYING]
        if not retrying_jobs:
            return ""
        return (
            f"{len(retrying_jobs)} of {len(self.in_flight)} in flight: {retrying_jobs[-1].awaiting}"
        )

    # Not wanted any more

    def cancel(
        self,
        lane: Lane,
        jobs: list[TrainingJob],
        message: str,
        *,
        failure: FailureClass = FailureClass.CANCELLED,
    ) -> None:
        """End these jobs now with `failure`, and stop their running attempts."""
        for job in jobs:
            why = failed(job.request, failure, message, attempts=job.attempt)
            if lane.batch.settle(why):
                self._stop(job)
        lane.changed.set()

    def _stop(self, job: TrainingJob) -> None:
        self._engine.stop(job, within_s=self._settings.stuck_after_s)

    def _expire(self, lane: Lane, job: TrainingJob) -> None:
        """Fail a job that has not started by its deadline. A running attempt checks its deadline
        itself.
        """
        if job.state is JobStage.QUEUED:
            waited = self._clock() - job.submitted
            message = f"not started within {waited:.1f} s, and its deadline has passed"
            self._stop(job)
            self._end(lane, failed(job.request, FailureClass.TIMEOUT, message))

    def set_weights(self, version: int) -> None:
        """Set the weight version. With `on_stale=abort`, cancel the rollouts that are now too old."""
        self.weights = version
        max_staleness = self._settings.max_staleness
        if self._settings.on_stale is not OnStale.ABORT:
            return
        for job in list(self.in_flight):
            if too_old(job.weights, version, max_staleness):
                why = stale(job.weights, version, max_staleness)
                lane = self.lanes[job.run]
                self.cancel(lane, [job], why, failure=FailureClass.STALE)

    def die(self, halt: Halt) -> None:
        """Fail everything that has not ended: no rollout can come back any more."""
        if self.death is not None:
            return
        self.death = halt
        self._bury_all(halt)

    def set_stuck(self, halt: Halt | None) -> None:
        """Fail the batches because a server is stuck; None: no server is stuck any more."""
        if halt is not None and self.stuck is None and self.death is None:
            self._bury_all(halt)
        self.stuck = halt

    @property
    def halted(self) -> bool:
        """Whether the servers are dead or stuck, so that no request to them is useful."""
        return self.death is not None or self.stuck is not None

    def _bury_all(self, halt: Halt) -> None:
        for lane in list(self.lanes.values()):
            self._bury(lane, halt)

    def _bury(self, lane: Lane, halt: Halt) -> None:
        batch = lane.batch
        unfinished = batch.unfinished()
        tails = [line for tail in halt.log_tails.values() for line in tail]
        buried: list[Failed] = []
        for job in unfinished:
            evidence = Evidence(log_tail=tails, hint=halt.cause.setting)
            outcome = failed(
                job.request,
                FailureClass.INFRA_ERROR,
                halt.cause.sentence,
                layer=halt.layer,
                # Here nothing can succeed any more, but on another fleet it may.
                retriable=not job.attempt or self._may_repeat(job),
                attempts=job.attempt,
                evidence=evidence,
            )
            if batch.settle(outcome, outage=halt.outage):
                buried.append(outcome)
                self._stop(job)
        policy = batch.policies.for_outage(halt.outage)
        if buried and policy is OnIncomplete.RAISE:
            self.fail(lane, batch.incomplete(halt.cause, halt.log_tails))
        elif policy is OnIncomplete.DROP_GROUP:
            for outcome in buried:
                self._drop(lane, outcome)
        self._check_share(lane)
        lane.changed.set()

    # Keeping order

    async def watch(self) -> None:
        """Abandon attempts that ignore their cancellation. Runs until it is cancelled."""
        await self._engine.watch(self._settings.stuck_after_s / 4)

    def forget(self, run: str) -> None:
        """Remove a submission that is over."""
        lane = self.lanes.pop(run, None)
        if lane is not None:
            for timer in lane.timers:
                timer.cancel()

    async def close(self) -> None:
        """Cancel all running attempts. Attempts that ignore their cancellation are abandoned."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        await self._engine.close()

    @property
    def in_flight(self) -> Collection[TrainingJob]:
        """The jobs that run now, the oldest first."""
        return self._engine.jobs.values()

    @property
    def queued(self) -> int:
        """The number of rollouts that have not been started."""
        return sum(
            job.state is JobStage.QUEUED for lane in self.lanes.values() for job in lane.queue
        )

    @property
    def waiting(self) -> int:
        """The number of outcomes that nobody has taken."""
        return sum(len(lane.batch.arrived) for lane in self.lanes.values())


def _without_outcome(job: TrainingJob, why: str = "") -> Failed:
    """Return a failure for a rollout that ended without an outcome. An empty `why` means a bug of
    Palestra.
    """
    return failed(
        job.request,
        FailureClass.CANCELLED if why else FailureClass.INFRA_ERROR,
        why or f"it ended without an outcome {_REPORT_IT}",
        retriable=False,
        attempts=job.attempt,
    )
