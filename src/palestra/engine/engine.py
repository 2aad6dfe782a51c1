"""The engine: runs the jobs that its `Work` supplies, each until its last attempt.

`Work` makes the decisions (the next job, whether another attempt follows); the engine runs them. A
worker runs one job after another, and each job is created only when it can start.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar, final

from palestra.engine.job import Job, JobStage
from palestra.engine.tasks import BoundedTasks

AnyJob = TypeVar("AnyJob", bound=Job)
Result = TypeVar("Result")


class Work(Protocol[AnyJob, Result]):
    """The source of jobs and the receiver of their results."""

    def take(self, running: int, /) -> AnyJob | None:
        """Return the next job; None when no job may start now. `running`: the number of running
        jobs.

        After None, `take` is called again by `Engine.fill` and whenever a job ends. None while no
        job runs means that there are no more jobs.
        """

    async def attempt(self, job: AnyJob, /) -> Result:
        """Run one attempt and return its result; a failure is a result too. An exception ends all
        jobs.
        """

    def settle(self, job: AnyJob, result: Result, /) -> float | None:
        """Record the result. Return the seconds until the next attempt, or None when this was the
        last.
        """

    def abandoned(self, job: AnyJob, /) -> Result:
        """Return the result for an attempt that keeps running after it was cancelled."""


@final
class Engine(Generic[AnyJob, Result]):
    """Runs the jobs of `work` on one event loop.

    `overdue_s`: seconds after which a running attempt is abandoned; None: never, unless
    `Work.attempt` sets its job's `stop_by`. `on_left`: called when no task runs a job any more,
    because it ended or was abandoned.
    """

    def __init__(
        self,
        work: Work[AnyJob, Result],
        *,
        overdue_s: float | None = None,
        on_left: Callable[[AnyJob], None] | None = None,
    ) -> None:
        self._work = work
        self._overdue_s = overdue_s
        self._on_left = on_left
        self._tasks = BoundedTasks()
        self.jobs: dict[Hashable, AnyJob] = {}
        """Those that a task runs, by their `place`, the oldest first."""

    async def run(self, *, look_every_s: float = 1.0) -> None:
        """Run all jobs. Raises the first exception of `work` after the other jobs have ended;
        wrapped in an exception group when `overdue_s` is set.

        `look_every_s`: the interval between checks for overdue attempts.
        """
        if self._overdue_s is None:
            await self._run_all()
            return
        async with asyncio.TaskGroup() as watched:
            watch = watched.create_task(self.watch(look_every_s))
            await self._run_all()
            watch.cancel()

    def fill(self) -> None:
        """Start all jobs that may start now."""
        while (
            not (self._tasks.broken or self._tasks.closing)
            and (job := self._work.take(len(self.jobs))) is not None
        ):
            self._start(job)

    def stop(self, job: AnyJob, *, within_s: float) -> None:
        """Stop a job that already has its result from elsewhere; `settle` is not called for it.

        A running attempt is cancelled. It is abandoned when it runs for longer than `within_s`
        afterwards.
        """
        if job.state is JobStage.QUEUED:
            job.become(JobStage.ENDED)
        elif job.state in {JobStage.RUNNING, JobStage.WAITING}:
            job.become(JobStage.STOPPING)
            job.stop_by = time.monotonic() + within_s
            # An attempt that stops its own job returns by itself.
            if job.task is not None and job.task is not asyncio.current_task():
                job.task.cancel()

    async def watch(self, look_every_s: float) -> None:
        """Abandon overdue attempts, in a loop, until this task is cancelled."""
        while True:
            await asyncio.sleep(look_every_s)
            suspects = self._overdue()
            if suspects:
                # An event loop that stood still has cancelled no attempt yet: it gets the time to.
                await asyncio.sleep(look_every_s)
            for job, stop_by in suspects:
                if job.state in _HAS_A_TASK and job.stop_by == stop_by:
                    self._abandon(job)

    async def close(self) -> None:
        """Cancel all running jobs. Tasks that ignore the cancellation are left behind."""
        await self._tasks.cancel()

    async def _run_all(self) -> None:
        try:
            async with self._tasks:
                self.fill()
        finally:
            # What still runs was left behind: its result has no sink any more.
            for job in self.jobs.values():
                if job.state in _HAS_A_TASK:
                    job.become(JobStage.ABANDONED)

    def _start(self, job: AnyJob) -> None:
        self.jobs[job.place] = job
        self._tasks.start(self._worker(job))

    async def _worker(self, job: AnyJob) -> None:
        task = asyncio.current_task()
        while True:
            job.task = task
            try:
                goes_on = await self._until_it_ends(job)
            finally:
                # An abandoned one has been taken out, or its successor is in its place.
                if self.jobs.get(job.place) is job:
                    self._leave(job)
            if not goes_on:
                return
            following = self._work.take(len(self.jobs))
            if following is None:
                return
            job = self.jobs[following.place] = following

    async def _until_it_ends(self, job: AnyJob) -> bool:
        """Run a job to its end. Return whether this task may run another job afterwards."""
        try:
            await self._all_attempts(job)
        except asyncio.CancelledError:
            if job.state is not JobStage.STOPPING or self._tasks.closing:
                raise
        if job.state is JobStage.STOPPING:
            job.become(JobStage.ENDED)
            if job.task is not None:
                job.task.uncancel()
        return job.state is JobStage.ENDED and not self._tasks.closing

    async def _all_attempts(self, job: AnyJob) -> None:
        """Run attempts until the job ends or its result is no longer needed."""
        while job.state in {JobStage.QUEUED, JobStage.WAITING}:
            now = time.monotonic()
            job.stop_by = math.inf if self._overdue_s is None else now + self._overdue_s
            job.begin(now)
            result = await self._work.attempt(job)
            if not job.is_running:
                return
            # Also of an attempt that has swallowed its cancellation: its result is one.
            pause_s = self._work.settle(job, result)
            if pause_s is None:
                job.become(JobStage.ENDED)
                return
            if self._tasks.closing:
                return
            job.become(JobStage.WAITING)
            job.stop_by = math.inf
            job.now("waiting", "the next attempt")
            await asyncio.sleep(pause_s)

    def _overdue(self) -> list[tuple[AnyJob, float]]:
        now = time.monotonic()
        return [
            (job, job.stop_by)
            for job in self.jobs.values()
            if job.state in _HAS_A_TASK and job.stop_by < now
        ]

    def _abandon(self, job: AnyJob) -> None:
        """Count a still-running attempt as failed. The job's next attempt runs in a new task."""
        is_settled = job.state is JobStage.STOPPING
        job.become(JobStage.ABANDONED)
        pause_s = None if is_settled else self._work.settle(job, self._work.abandoned(job))
        if job.task is not None:
            self._tasks.leave(job.task)
        if pause_s is None:
            self._leave(job)
            self.fill()
        else:
            # In the same place of the dictionary: the oldest jobs stay first.
            self._start(job.successor())

    def _leave(self, job: AnyJob) -> None:
        del self.jobs[job.place]
        job.task = None
        if self._on_left is not None:
            self._on_left(job)


_HAS_A_TASK: Final = frozenset({JobStage.RUNNING, JobStage.STOPPING})
"""The stages in which an attempt runs. A WAITING job only sleeps, and ends at once when it is
cancelled."""
