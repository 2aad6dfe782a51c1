"""The interface of every executor, and the types in which it reports the state of a job."""

import re
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from palestra.cluster.plan import PlannedJob, Run
from palestra.errors import Layer, RunFailed
from palestra.system import how_ended


class ClusterUnreachable(RunFailed):
    """The cluster did not answer, so the state of its jobs is unknown. Never treat it as `not
    done`.
    """

    layer = Layer.INFRA


class Phase(StrEnum):
    """The state of one job, or of one task of an array."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The cluster answers but no longer has the job. The job's result file may say how it ended."""

    @property
    def over(self) -> bool:
        """Whether the state is final."""
        return self not in {Phase.QUEUED, Phase.RUNNING}


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job.

    `reason`: in the cluster's own words, such as NODE_FAIL or (Priority). `restarts`: how often the
    job was requeued.
    """

    state: Phase
    reason: str = ""
    exit_code: str = ""
    restarts: int = 0


class Executor(Protocol):
    """Runs jobs. Each call has a deadline and raises ClusterUnreachable after it.

    A job's id is the one that `submit` reports. Task i of an array has the id `unit_ids(job,
    id)[i]`.
    """

    def submit(self, run: Run, submitted: Callable[[PlannedJob, str], None], /) -> None:
        """Submit every job of a run whose folder is written. Call `submitted` with each id as soon
        as it exists.
        """

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        """Return the state of each unit by its id, with one query for all."""

    def gpu_hours(self, ids: Iterable[str], /) -> float | None:
        """Return the GPU hours that jobs have used so far; None when nobody counts them."""

    def cancel(self, ids: Iterable[str], /) -> None:
        """Cancel jobs or units. Ids of ended jobs are ignored."""

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        """Return the log files of a shard or job, oldest first; of all when `unit` is empty."""


def unit_ids(job: PlannedJob, job_id: str) -> tuple[str, ...]:
    """Return the ids of a job's units: one per task of an array, otherwise the job's own id."""
    return tuple(f"{job_id}_{i}" for i in range(len(job.shards))) if job.array else (job_id,)


def log_files(log_dir: Path, unit: str = "") -> tuple[Path, ...]:
    """Return the logs of one unit in `log_dir`, oldest first.

    The whole name must match: `rollouts-rs1` does not match the logs of `rollouts-rs1-chunk0` or
    `rollouts-rs11`.
    """
    if not log_dir.is_dir():
        return ()
    prefix = f"{unit}_" if unit else ""
    logs = [path for path in log_dir.glob("*.log") if path.name.startswith(prefix)]
    return tuple(sorted(logs, key=lambda path: (path.stat().st_mtime, path.name)))


_SIGNAL: Final = re.compile(r"(?:\d+:|-)([1-9]\d?)")


def killed_by(exit_code: str) -> str:
    """Return which signal killed a supervisor before it wrote a result; empty when none did.

    `exit_code`: Slurm's (`0:9` is exit code and signal), or that of a process (`-9`).
    """
    ended_by = _SIGNAL.fullmatch(exit_code)
    if ended_by is None:
        return ""
    number = int(ended_by[1])
    cause = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"killed by {how_ended(-number)}{cause}, no result was written"
