"""The pool: gives the engine what there is room for, and says how each rollout ended.

Room is what the settings leave: rollouts in flight, outcomes that wait to be taken, bytes of both,
and memory. How one attempt runs is `palestra.training.running`'s; what a failure means to its
batch is decided here.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final, final

from palestra.engine import Engine, JobStage
from palestra.training.batch import INTENDED, Batch, Halt, Lane, stale, too_old
from palestra.training.errors import BatchFailed
from palestra.training.failing import failed
from palestra.training.jobs import RETRYING, Attempted, TrainingJob
from palestra.training.memory import MemoryGuard
from palestra.training.outcomes import Completed, Evidence, Failed, FailureClass, Group, Outcome
from palestra.training.policies import OnIncomplete
from palestra.training.requests import Key
from palestra.training.settings import ClientSettings, OnStale

logger = logging.getLogger("palestra.training")

LOOK_AGAIN_S: Final = 0.25
"""How often memory is looked at while it keeps rollouts from starting."""
_REPORT_IT: Final = "(a bug in Palestra: please report it)"


@final
class Pool:
    """Jobs in, outcomes out: an engine's `Work`, on one event loop.

    `run` makes one attempt; what it raises is the outcome of its rollout alone.
    """

    def __init__(
        self,
        settings: ClientSettings,
        guard: MemoryGuard,
        run: Callable[["Pool", TrainingJob], Awaitable[Attempted]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._policies = settings.policies
        self._guard = guard
        self._run = run
        self._clock = clock
        self._engine: Engine[TrainingJob, Attempted] = Engine(self, on_left=self._left)
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

    def add(self, run: str, jobs: list[TrainingJob]) -> Lane:
        """Take in a submission."""
        queue = sorted(jobs)  # which is a heap
        lane = self.lanes[run] = Lane(Batch(jobs, self._settings))
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
        """Start what there is room for."""
        self._engine.fill()

    def take(self, running: int, /) -> TrainingJob | None:
        """The first in turn, when there is room for it."""
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
        """The first in turn of the batches whose outcomes are taken."""
        max_waiting = self._settings.max_waiting
        heads = (
            lane.head() for lane in self.lanes.values() if len(lane.batch.arrived) < max_waiting
        )
        return min((job for job in heads if job is not None), default=None)

    def _look_again(self) -> None:
        self._again = None
        self.pump()

    def _no_room(self, lane: Lane, job: TrainingJob, running: int) -> str:
        """Why a rollout cannot be started now; empty when it can."""
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
        """How one attempt went. Raises nothing but the cancellation that we ordered."""
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
        """What an attempt means for its rollout and its batch; the pause before another one."""
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
        """The failure of an attempt that does not let itself be stopped."""
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

    def _left(self, job: TrainingJob) -> None:
        """No task runs it any more."""
        self._bytes -= job.reserved
        lane = self.lanes.get(job.run)
        if lane is not None:
            if not lane.batch.has_ended(job):  # somebody waits for it
                self._end(
                    lane, _without_outcome(job, "the client was left" if self._closed else "")
                )
            lane.running -= 1
            lane.changed.set()
        self.pump()

    # Out

    def _end(self, lane: Lane, outcome: Outcome, size: int = 0) -> None:
        """A rollout has ended, and what that means for its batch."""
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
        """A batch of which too little can come back ends now, under every policy."""
        if lane.batch.error is None and lane.batch.too_few:
            self.fail(lane, lane.batch.incomplete(short=True))

    def _drop(self, lane: Lane, outcome: Failed) -> None:
        if not lane.batch.hopeless_group(outcome.group_id):
            return
        why = f"rollout {outcome.key} failed ({outcome.failure.value}): {outcome.message}"
        others_of_group = lane.batch.drop_group(outcome.group_id, why)
        self.cancel(lane, others_of_group, f"its group was dropped: {why}")

    def fail(self, lane: Lane, error: BatchFailed) -> None:
        """The batch ends with `error`; the first one counts."""
        if lane.batch.error is None:
            lane.batch.error = error
        self.cancel(lane, lane.batch.unfinished(), f"the batch has failed: {error.message}")
        lane.changed.set()

    def next_outcome(self, lane: Lane) -> Outcome | None:
        """The next outcome that waits."""
        outcome = lane.batch.take(self.weights)
        if self.held_back != "in_flight":
            self.pump()
        return outcome

    def at_its_end(self, lane: Lane) -> BatchFailed | None:
        """What is wrong with a batch of which every outcome has been taken."""
        if lane.batch.came_to_nothing:
            return lane.batch.incomplete()
        return lane.batch.blind(seen_before=self._seen_ids)

    def all_of(self, lane: Lane, returned: dict[Key, Outcome]) -> list[Outcome]:
        """What was taken of a batch, as it is to be handed out now."""
        outcomes = lane.batch.all_of(returned, self.weights)
        self._check_share(lane)
        return outcomes

    def group(self, lane: Lane, group: int | str, returned: dict[Key, Outcome]) -> Group | None:
        """What was taken of a group, as it is to be handed out now."""
        members = lane.batch.group_of(group, returned, self.weights)
        self._check_share(lane)
        return members

    def failing(self, failure: Failed) -> None:
        """An attempt has failed, whatever becomes of its rollout."""
        self.last_failure = f"rollout {failure.key}, attempt {failure.attempts}: {failure.message}"

    @property
    def retrying(self) -> str:
        """What rollouts in flight ask for again and again; empty when none does."""
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
        """End these now. What runs of them is stopped, and its servers with it."""
        for job in jobs:
            why = failed(job.request, failure, message, attempts=job.attempt)
            if lane.batch.settle(why):
                self._stop(job)
        lane.changed.set()

    def _stop(self, job: TrainingJob) -> None:
        self._engine.stop(job, within_s=self._settings.stuck_after_s)

    def _expire(self, lane: Lane, job: TrainingJob) -> None:
        """A deadline has passed. An attempt that runs knows it, and says what was awaited."""
        if job.state is JobStage.QUEUED:
            waited = self._clock() - job.submitted
            message = f"not started within {waited:.1f} s, and its deadline has passed"
            self._stop(job)
            self._end(lane, failed(job.request, FailureClass.TIMEOUT, message))

    def set_weights(self, version: int) -> None:
        """The weights are of this version from now on; what is too old by that may be stopped."""
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
        """Nothing can come back any more: everything that has not ended has failed."""
        if self.death is not None:
            return
        self.death = halt
        self._bury_all(halt)

    def set_stuck(self, halt: Halt | None) -> None:
        """A server is stuck, so that what was asked for fails; None: all of them go on."""
        if halt is not None and self.stuck is None and self.death is None:
            self._bury_all(halt)
        self.stuck = halt

    @property
    def halted(self) -> bool:
        """Whether the servers can be asked for nothing now."""
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
                retriable=False,
                attempts=job.attempt,
                evidence=evidence,
            )
            if batch.settle(outcome, outage=halt.outage):
                buried.append(outcome)
                self._stop(job)
        policy = self._policies.for_outage(halt.outage)
        if buried and policy is OnIncomplete.RAISE:
            self.fail(lane, batch.incomplete(halt.cause, halt.log_tails))
        elif policy is OnIncomplete.DROP_GROUP:
            for outcome in buried:
                self._drop(lane, outcome)
        self._check_share(lane)
        lane.changed.set()

    # Keeping order

    async def watch(self) -> None:
        """Leave behind what does not let itself be stopped, until this is cancelled."""
        await self._engine.watch(self._settings.stuck_after_s / 4)

    def forget(self, run: str) -> None:
        """A submission is over."""
        lane = self.lanes.pop(run, None)
        if lane is not None:
            for timer in lane.timers:
                timer.cancel()

    async def close(self) -> None:
        """Cancel what still runs; what does not let itself be stopped is left behind."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        await self._engine.close()

    @property
    def in_flight(self) -> Collection[TrainingJob]:
        """What a task runs, the oldest first."""
        return self._engine.jobs.values()

    @property
    def queued(self) -> int:
        """Rollouts that have not been started."""
        return sum(
            job.state is JobStage.QUEUED for lane in self.lanes.values() for job in lane.queue
        )

    @property
    def waiting(self) -> int:
        """Outcomes that nobody has taken."""
        return sum(len(lane.batch.arrived) for lane in self.lanes.values())


def _without_outcome(job: TrainingJob, why: str = "") -> Failed:
    """No rollout ends without an outcome; `why` is empty where that is a bug of ours."""
    return failed(
        job.request,
        FailureClass.CANCELLED if why else FailureClass.INFRA_ERROR,
        why or f"it ended without an outcome {_REPORT_IT}",
        retriable=False,
        attempts=job.attempt,
    )
