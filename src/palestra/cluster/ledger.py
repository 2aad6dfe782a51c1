"""The ledger of a run: what was submitted, and how it ended. Append-only; torn lines are dropped.

submitted     one job was handed to the executor: submission, job, job_id, shards
started       a supervisor has begun: job, task, job_id, restart, host
restarted     a service was started again; `ignored`: the job went on without it
requeued      a job went back into the queue before its time limit
ended         a supervisor has said how its job went: status, code, reason, counts
never_starts  a job that waits for one that failed: dependant, reason
cancelled     somebody asked for a job to be cancelled
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.cluster.records import append_line, read_lines


@dataclass(frozen=True, slots=True)
class Submitted:
    """One job that was submitted. `job_id`: as the executor knows it."""

    submission: str
    job: str
    job_id: str
    shards: tuple[str, ...]
    time: float


def append(path: Path, event: Mapping[str, object]) -> None:
    """Append one event, whole and down to the disk. Raises OSError."""
    append_line(path, event)


def events(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole event, in order; none when there is no ledger yet."""
    return read_lines(path)


def submitted(path: Path) -> list[Submitted]:
    """Every job that was submitted, in order."""
    return [
        Submitted(
            str(event["submission"]),
            str(event["job"]),
            str(event["job_id"]),
            tuple(event.get("shards") or ()),
            float(event.get("time") or 0.0),
        )
        for event in events(path)
        if event.get("event") == "submitted" and {"submission", "job", "job_id"} <= event.keys()
    ]
