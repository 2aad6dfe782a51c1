"""The Slurm commands that a supervisor asks, each within a time of its own."""

from __future__ import annotations

from palestra.system import run

ASK_S = 60.0
GONE = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
        "REVOKED",
    }
)


class SlurmUnreachable(Exception):
    """Slurm did not answer, which says nothing about any job."""


def hostnames(nodelist: str) -> tuple[str, ...]:
    """The nodes of a list such as `node[1-2]`. Raises SlurmUnreachable."""
    return tuple(_asked("scontrol", "show", "hostnames", nodelist).split())


def is_gone(job_id: str) -> bool:
    """Whether a job has ended, or is so old that Slurm has forgotten it. Raises SlurmUnreachable.

    `CANCELLED by 0` is told so by accounting; only the first word counts.
    """
    try:
        states = _asked("squeue", "-h", "-a", "-t", "all", "-o", "%T", "-j", job_id).split()
    except SlurmUnreachable as error:
        if "Invalid job id" in str(error):
            return True
        raise
    return all(state in GONE for state in states)


def requeue(job_id: str) -> None:
    """Put a running job, this one too, back into the queue. Raises SlurmUnreachable."""
    _asked("scontrol", "requeue", job_id)


def _asked(*command: str) -> str:
    try:
        process = run(command, timeout_s=ASK_S)
    except OSError as error:
        raise SlurmUnreachable(f"{command[0]}: {error}") from error
    if process.code:
        raise SlurmUnreachable(f"{command[0]} exited with {process.code}: {process.complaint}")
    return process.text
