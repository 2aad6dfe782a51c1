"""The ledger of each run (what was submitted, how it ended), and the list of this user's runs.

A run's ledger is append-only. Incomplete lines are ignored. Its events:

    submitted     one job was handed to the executor: submission, job, job_id, shards
    started       a supervisor has begun: job, task, job_id, restart, host
    restarted     a service was started again
    ignored       a service ended, and the job went on without it
    requeued      a job went back into the queue before its time limit
    ended         how a job ended: status, code, reason, counts; by its supervisor, or by
                  `cluster status` where the supervisor was killed or did not know the cause
    never_starts  a job cannot start because a job that it depends on failed: dependant, reason
    cancelled     a user cancelled a job

The names of runs, for `--run-after NAME` and `cluster status NAME`, are in one append-only file in
the user's state folder. When several runs have the same name, the last one counts.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from palestra.cluster.records import append_line, read_lines
from palestra.schema import JsonDict


@dataclass(frozen=True, slots=True)
class Submitted:
    """One submitted job. `job_id`: the executor's id of the job."""

    submission: str
    job: str
    job_id: str
    shards: tuple[str, ...]
    time: float


def append(path: Path, event: Mapping[str, object]) -> None:
    """Append one event as a complete line and sync it to disk. Raises OSError."""
    append_line(path, event)


def events(path: Path) -> Iterator[JsonDict]:
    """Yield every complete event, in order; nothing when the file does not exist."""
    return read_lines(path)


def submitted(path: Path) -> list[Submitted]:
    """Return every submitted job, in order."""
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


def submissions(path: Path) -> frozenset[str]:
    """Return the numbers of the submissions that have jobs. A dry run has none."""
    return frozenset(
        str(event["submission"])
        for event in events(path)
        if event.get("event") in {"submitted", "started"} and "submission" in event
    )


VARIABLE = "PALESTRA_STATE_DIR"


@dataclass(frozen=True, slots=True)
class KnownRun:
    """One run in the list of runs: its name, its output folder, and how to query its jobs."""

    name: str
    output_dir: str
    executor: str
    timeout_s: float = 60.0
    login: JsonDict | None = None
    """For a run that was submitted from elsewhere: the settings `ssh` of its cluster."""
    folder: str = ""
    """Of such a run: the folder on the cluster where it was submitted."""
    typed: str = ""
    """Of such a run: its `--output-dir` as it was typed."""
    variables: tuple[str, ...] = ()
    """Of such a run: the variables that its jobs inherit from where a command is typed."""


def registry_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file that lists this user's runs: `cluster-runs.jsonl` in the state folder.

    The folder is `$PALESTRA_STATE_DIR`, else `$XDG_STATE_HOME/palestra`, else
    `~/.local/state/palestra`.
    """
    variables = environ if environ is not None else os.environ
    if folder := variables.get(VARIABLE):
        return Path(folder) / "cluster-runs.jsonl"
    base = variables.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "palestra" / "cluster-runs.jsonl"


def remember(run: KnownRun, path: Path | None = None) -> None:
    """Append a run to the list of runs. Raises OSError."""
    target = path or registry_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    append_line(target, asdict(run))


def known_run(name: str, path: Path | None = None) -> KnownRun | None:
    """Return the last run named `name`; None when there is none.

    A run that was submitted from elsewhere is also known by its output folder, as it was typed and
    as it is on the cluster.
    """
    target = path or registry_file()
    lines_of_run = [line for line in read_lines(target) if name in _names_of(line)]
    return KnownRun(**lines_of_run[-1]) if lines_of_run else None


def _names_of(line: JsonDict) -> set[object]:
    remote_names = ("typed", "output_dir") if line.get("login") else ()
    return {line.get(key) for key in ("name", *remote_names)} - {"", None}
