"""Query Slurm for a job: its state, and where its output was written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.doctor.findings import quote
from palestra.doctor.reading import LogObservation, Rank
from palestra.errors import BadInput
from palestra.system import run

ANSWER_WITHIN_S: Final = 20.0
JOB_ID: Final = re.compile(r"\d+(?:[_+]\d+)?")
_FIELD: Final = re.compile(r"(\w+(?:/\w+)?)=(\S*)")
_WELL: Final = frozenset({"COMPLETED", "RUNNING", "PENDING", "COMPLETING", "CONFIGURING"})
_NO_RUN: Final = frozenset({"DependencyNeverSatisfied"})


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A Slurm job: observations from its state, its working folder, and its logs."""

    job: str
    state: str
    observations: tuple[LogObservation, ...]
    logs: tuple[Path, ...] = ()
    folder: Path | None = None
    asked: str = ""
    """The Slurm command that gave this information."""


def read_job(job: str) -> SlurmJob:
    """Query Slurm for a job. Raises BadInput: Slurm does not know the job."""
    command = ["scontrol", "show", "job", job, "--oneliner"]
    code, text = _ask(command)
    if code == 0 and "JobId=" in text:
        return _from_scontrol(job, text, " ".join(command))
    # Of several complaints, the last one is what they came to.
    complaint = next(iter(reversed(text.strip().splitlines())), "").strip()
    accounted = ["sacct", "-j", job, "-n", "-P", "-o", "State,ExitCode,WorkDir"]
    code, text = _ask(accounted)
    if code == 0 and text.strip():
        return _from_sacct(job, text, " ".join(accounted))
    raise BadInput(
        f"Slurm knows no job {job}: {complaint or 'scontrol says nothing'}",
        hint="is SLURM_CONF that of the cluster? A job is forgotten minutes after its end: give "
        "its output file (slurm-<job>.out) instead",
    )


def _ask(command: Sequence[str]) -> tuple[int, str]:
    try:
        process = run(command, timeout_s=ANSWER_WITHIN_S)
    except OSError as error:
        return 127, str(error)
    return process.code, process.text if process.code == 0 else process.complaint


def _from_scontrol(job: str, text: str, command: str) -> SlurmJob:
    # Of an array, the first task that went wrong speaks for the job.
    records = [dict(_FIELD.findall(line)) for line in text.splitlines() if "JobState=" in line]
    broken = [(at, r) for at, r in enumerate(records, start=1) if _is_broken(r)]
    at, record = broken[0] if broken else (1, records[0])
    state, reason = record.get("JobState", ""), record.get("Reason", "")
    logs = dict.fromkeys(
        Path(record[name]) for name in ("StdOut", "StdErr") if record.get(name, "").startswith("/")
    )
    summary = f"JobState={state} Reason={reason} ExitCode={record.get('ExitCode', '')}"
    observed = (_observed(job, summary, state, command, at),) if broken else ()
    folder = Path(record["WorkDir"]) if record.get("WorkDir") else None
    return SlurmJob(job, state, observed, tuple(p for p in logs if p.is_file()), folder, command)


def _is_broken(record: dict[str, str]) -> bool:
    if record.get("Reason") in _NO_RUN:
        return True
    if record.get("JobState") not in _WELL:
        return True
    return record.get("JobState") == "COMPLETED" and record.get("ExitCode", "0:0") != "0:0"


def _from_sacct(job: str, text: str, command: str) -> SlurmJob:
    for at, line in enumerate(text.splitlines(), start=1):
        state, exit_code, folder = (*line.split("|"), "", "", "")[:3]
        word = state.split(" ")[0]
        if word and word not in _WELL:
            summary = f"JobState={word} Reason={state} ExitCode={exit_code}"
            observed = (_observed(job, summary, word, command, at),)
            return SlurmJob(
                job, word, observed, _logs_of_job(job, folder), Path(folder or "."), command
            )
    state, _, folder = (*text.splitlines()[0].split("|"), "", "")[:3]
    return SlurmJob(job, state, (), _logs_of_job(job, folder), Path(folder or "."), command)


def _logs_of_job(job: str, folder: str) -> tuple[Path, ...]:
    """Return sbatch's default output file of a job, if it exists."""
    path = Path(folder or ".") / f"slurm-{job}.out"
    return (path,) if path.is_file() else ()


def _observed(job: str, summary: str, state: str, command: str, line: int) -> LogObservation:
    # That a script failed says nothing of why: what it printed is nearer to the cause.
    rank = Rank.RELAY if state == "FAILED" and "0:53" not in summary else Rank.ENDED
    return LogObservation(
        f"slurm job {job}: {summary}", (quote(command, summary, line=line),), rank
    )
