"""What one supervisor runs: a job of a plan, or one task of a job's array."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.plan import Job, Run, Shard, read_plan


class BadPlan(Exception):
    """The plan cannot be read, or has no such job."""


@dataclass(frozen=True)
class JobTask:
    """A job of a run, and which task of its array. `plan`: the file that tells of it."""

    plan: Path
    run: Run
    job: Job
    index: int = 0

    @property
    def output_dir(self) -> Path:
        return Path(self.run.output_dir)

    @property
    def log_dir(self) -> Path:
        return Path(self.run.log_dir)

    @property
    def groups(self) -> int:
        """How many allocations it has."""
        return len(self.job.allocations)

    @property
    def array_index(self) -> int | None:
        """The index in the array; None where there is none."""
        return self.index if self.job.array else None

    @property
    def shard(self) -> Shard | None:
        """What it has of the run's rollouts."""
        return self.run.shard(self.job.shards[self.index]) if self.job.shards else None

    @property
    def unit(self) -> str:
        """What its logs are named after."""
        return self.shard.name if self.shard else self.job.name

    @property
    def dependants(self) -> tuple[str, ...]:
        """Jobs that start only if this one goes well, and those that wait for them."""
        waiting = [self.job.name]
        for job in self.run.jobs:  # each comes after those it depends on
            if any(after.kind == "afterok" and after.job in waiting for after in job.after):
                waiting.append(job.name)
        return tuple(waiting[1:])


def read_task(plan: Path, job_name: str, index: int) -> JobTask:
    """The task of the job named so. Raises BadPlan."""
    try:
        run = read_plan(plan)
    except OSError as error:
        raise BadPlan(f"{plan}: {error.strerror}") from error
    except ValueError as error:
        raise BadPlan(f"{plan}: {error}") from error
    named = [job for job in run.jobs if job.name == job_name]
    if not named:
        names = ", ".join(job.name for job in run.jobs)
        raise BadPlan(f"{plan} has no job {job_name!r} (jobs: {names})")
    if named[0].shards and index >= len(named[0].shards):
        raise BadPlan(f"job {job_name} has {len(named[0].shards)} shards, and no number {index}")
    return JobTask(plan, run, named[0], index)
