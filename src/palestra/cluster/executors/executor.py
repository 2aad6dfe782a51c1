"""What every executor can do, and the words in which it says how a job is."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from palestra.cluster.plan import Job, Run
from palestra.errors import Layer, RunFailed
from palestra.schema import JsonObject
from palestra.system import signal_name


class ClusterUnreachable(RunFailed):
    """The cluster gave no answer, so nothing is known: never the same as `not done`."""

    layer = Layer.INFRA


class Phase(StrEnum):
    """How one job, or one task of an array, is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The cluster answers and has forgotten it: its result file says more."""

    @property
    def over(self) -> bool:
        """Whether it will not change any more."""
        return self not in {Phase.QUEUED, Phase.RUNNING}


@dataclass(frozen=True, slots=True)
class JobState:
    """`reason`: in the cluster's own words, such as NODE_FAIL or (Priority). `restarts`: requeues."""

    state: Phase
    reason: str = ""
    exit_code: str = ""
    restarts: int = 0


class Executor(Protocol):
    """Where jobs run. Each call has a deadline, and raises ClusterUnreachable past it.

    A job's id is what `submit` said; of an array, task i is `unit_ids(job, id)[i]`.
    """

    def submit(self, run: Run, submitted: Callable[[Job, str], None], /) -> None:
        """Submit every job of a run whose folder is written; tell each id as soon as it exists."""

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        """How the jobs are, by the ids of their units: one question for all."""

    def cancel(self, ids: Iterable[str], /) -> None:
        """End jobs or units. Those that have ended already are fine."""

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        """The log files of a shard or a job, of all when `unit` is empty; oldest first."""


def unit_ids(job: Job, job_id: str) -> tuple[str, ...]:
    """The ids of what runs in a job: its tasks', or its own."""
    return tuple(f"{job_id}_{i}" for i in range(len(job.shards))) if job.array else (job_id,)


def log_files(log_dir: Path, unit: str = "") -> tuple[Path, ...]:
    """The logs in `log_dir` of one unit, oldest first.

    `rollouts-rs1` is not the beginning of `rollouts-rs1-chunk0` here, nor of `rollouts-rs11`.
    """
    if not log_dir.is_dir():
        return ()
    prefix = f"{unit}_" if unit else ""
    logs = [path for path in log_dir.glob("*.log") if path.name.startswith(prefix)]
    return tuple(sorted(logs, key=lambda path: (path.stat().st_mtime, path.name)))


_BARE_EXIT: Final = re.compile(r"exited with \d+|was ended by ")
_EXITED_WELL: Final = re.compile(r"exited with 0\b")
_SIGNAL: Final = re.compile(r"(?:\d+:|-)([1-9]\d?)")
_ERROR: Final = "error: "
MOST_CHARACTERS: Final = 400


def reason_of(result: JsonObject) -> str:
    """Why the job ended, with the last word of the log where the reason is no more than an exit.

    Empty when there is no reason, as after a job that went well.
    """
    reason = str(result.get("reason") or "")
    last_word = _last_word(
        str(result.get("log") or ""), errors_only=bool(_EXITED_WELL.search(reason))
    )
    return f"{reason}: {last_word}" if last_word and _BARE_EXIT.search(reason) else reason


def killed_by(exit_code: str) -> str:
    """Which signal ended a supervisor before it wrote a result; empty when none did.

    `exit_code`: Slurm's (`0:9`, exit and signal), or that of a process (`-9`).
    """
    ended_by = _SIGNAL.fullmatch(exit_code)
    if ended_by is None:
        return ""
    name = signal_name(int(ended_by[1]))
    cause = " (out of memory?)" if name == "SIGKILL" else ""
    return f"killed by {name}{cause}, no result was written"


def _last_word(log: str, *, errors_only: bool) -> str:
    """The last error of a log, since hints may follow it; without one, its last line.

    `errors_only`: the last line of a program that exited well is no cause.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    fallback = [] if errors_only else lines
    return (errors or fallback or [""])[-1][:MOST_CHARACTERS]
