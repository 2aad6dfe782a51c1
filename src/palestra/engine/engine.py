"""The engine: as many jobs at once as its work gives, each until its last attempt.

What is decided (which job is next, whether another attempt follows) is the work's; the engine
awaits. A worker takes one job after the other: a job is made when it can run, and no sooner.
"""

import asyncio
import time
from typing import Generic, Protocol, TypeVar, final

from palestra.engine.job import Job, JobStage
from palestra.engine.tasks import BoundedTasks
from palestra.schema import RolloutKey

AnyJob = TypeVar("AnyJob", bound=Job)
Result = TypeVar("Result")


class Work(Protocol[AnyJob, Result]):
    """The source of jobs and the sink of their results."""

    def take(self, running: int, /) -> AnyJob | None:
        """The next job, while `running` others run; None when none may start now.

        After None, `Engine.fill` asks again, and so does each job that ends. When None is the
        answer while nothing runs, all jobs have been given.
        """

    async def attempt(self, job: AnyJob, /) -> Result:
        """Run one attempt. A failed one is a result; what is raised ends all jobs."""

    def settle(self, job: AnyJob, result: Result, /) -> float | None:
        """Record the result: seconds until the next attempt, None when this was the last."""

    def abandoned(self, job: AnyJob, /) -> Result:
        """The result of an attempt that goes on although it was cancelled."""


@final
class Engine(Generic[AnyJob, Result]):
    """Runs the jobs of `work` on one event loop.

    `overdue_s`: seconds after which an attempt that has not ended is abandoned; None: never.
    """

    def __init__(self, work: Work[AnyJob, Result], *, overdue_s: float | None = None) -> None:
        self._work = work
        self._overdue_s = overdue_s
        self._tasks = BoundedTasks()
        self.jobs: dict[RolloutKey, AnyJob] = {}
        """Those that run or wait for their next attempt, the oldest first."""

    async def run(self, *, look_every_s: float = 1.0) -> None:
        """Run all jobs. Raises the first error that is no result, once the others have ended; in an
        exception group where overdue attempts are looked for.

        `look_every_s`: how often to look for attempts that are overdue.
        """
        if self._overdue_s is None:
            await self._run_all()
            return
        async with asyncio.TaskGroup() as watched:
            watch = watched.create_task(self._abandon_overdue(self._overdue_s, look_every_s))
            await self._run_all()
            watch.cancel()

    def fill(self) -> None:
        """Start the jobs that may start now."""
        while (
            not (self._tasks.broken or self._tasks.closing)
            and (job := self._work.take(len(self.jobs))) is not None
        ):
            self._start(job)

    async def _run_all(self) -> None:
        try:
            async with self._tasks:
                self.fill()
        finally:
            # What still runs was left behind: its result has no sink any more.
            for job in self.jobs.values():
                if job.state is JobStage.RUNNING:
                    job.become(JobStage.ABANDONED)

    def _start(self, job: AnyJob) -> None:
        self.jobs[job.key] = job
        self._tasks.start(self._worker(job))

    async def _worker(self, job: AnyJob) -> None:
        task = asyncio.current_task()
        while True:
            job.task = task
            try:
                goes_on = await self._all_attempts(job)
            finally:
                # An abandoned one has been taken out, or its successor is in its place.
                if self.jobs.get(job.key) is job:
                    del self.jobs[job.key]
            if not goes_on:
                return
            following = self._work.take(len(self.jobs))
            if following is None:
                return
            job = self.jobs[following.key] = following

    async def _all_attempts(self, job: AnyJob) -> bool:
        """Run a job to its end; False when nobody waits for it any more."""
        while True:
            job.begin(time.monotonic())
            result = await self._work.attempt(job)
            if job.state is JobStage.ABANDONED:
                return False
            # Also of an attempt that has swallowed its cancellation: its result is one.
            pause_s = self._work.settle(job, result)
            if pause_s is None:
                job.become(JobStage.ENDED)
                return not self._tasks.closing
            if self._tasks.closing:
                return False
            job.become(JobStage.WAITING)
            job.now("waiting", "the next attempt")
            await asyncio.sleep(pause_s)

    async def _abandon_overdue(self, overdue_s: float, look_every_s: float) -> None:
        while True:
            await asyncio.sleep(look_every_s)
            suspects = self._overdue(overdue_s)
            if suspects:
                # An event loop that stood still has cancelled no attempt yet: it gets the time to.
                await asyncio.sleep(look_every_s)
            for job, attempt_started in suspects:
                if job.state is JobStage.RUNNING and job.attempt_started == attempt_started:
                    self._abandon(job)

    def _overdue(self, overdue_s: float) -> list[tuple[AnyJob, float]]:
        latest = time.monotonic() - overdue_s
        return [
            (job, job.attempt_started)
            for job in self.jobs.values()
            if job.state is JobStage.RUNNING and job.attempt_started < latest
        ]

    def _abandon(self, job: AnyJob) -> None:
        """Count an attempt as failed while it goes on; what follows it runs in another task."""
        job.become(JobStage.ABANDONED)
        pause_s = self._work.settle(job, self._work.abandoned(job))
        if job.task is not None:
            self._tasks.leave(job.task)
        if pause_s is None:
            del self.jobs[job.key]
            self.fill()
        else:
            # In the same place of the dictionary: the oldest jobs stay first.
            self._start(job.successor())
