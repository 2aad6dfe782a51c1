"""What was submitted and how it ended, for each run; and the runs of this user, by name.

A run's ledger is append-only, and torn lines are dropped:

submitted     one job was handed to the executor: submission, job, job_id, shards
started       a supervisor has begun: job, task, job_id, restart, host
restarted     a service was started again; `ignored`: the job went on without it
requeued      a job went back into the queue before its time limit
ended         a supervisor has said how its job went: status, code, reason, counts
never_starts  a job that waits for one that failed: dependant, reason
cancelled     somebody asked for a job to be cancelled

The names of runs, for `--run-after NAME` and `cluster status NAME`, are in one file of the user's
state folder, appended to; the last run of a name is the one that is meant.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from palestra.cluster.records import append_line, read_lines
from palestra.schema import JsonDict


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


def events(path: Path) -> Iterator[JsonDict]:
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


VARIABLE = "PALESTRA_STATE_DIR"


@dataclass(frozen=True, slots=True)
class KnownRun:
    """One run: its name, its output folder, and how its jobs are asked for."""

    name: str
    output_dir: str
    executor: str
    timeout_s: float = 60.0


def registry_file(environ: Mapping[str, str] | None = None) -> Path:
    """`$PALESTRA_STATE_DIR`, else `$XDG_STATE_HOME/palestra`, else `~/.local/state/palestra`."""
    variables = environ if environ is not None else os.environ
    if folder := variables.get(VARIABLE):
        return Path(folder) / "cluster-runs.jsonl"
    base = variables.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "palestra" / "cluster-runs.jsonl"


def remember(run: KnownRun, path: Path | None = None) -> None:
    """Append a run. Raises OSError."""
    target = path or registry_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    append_line(target, asdict(run))


def known_run(name: str, path: Path | None = None) -> KnownRun | None:
    """The last run of that name; None when there was none."""
    target = path or registry_file()
    lines_of_run = [line for line in read_lines(target) if line.get("name") == name]
    return KnownRun(**lines_of_run[-1]) if lines_of_run else None
