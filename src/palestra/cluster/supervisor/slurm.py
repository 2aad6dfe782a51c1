"""The Slurm commands that a supervisor runs, each with a timeout."""

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
    """Slurm did not answer, so the state of its jobs is unknown."""


def hostnames(nodelist: str) -> tuple[str, ...]:
    """Return the nodes of a list such as `node[1-2]`. Raises SlurmUnreachable."""
    return tuple(_answer_of("scontrol", "show", "hostnames", nodelist).split())


def is_gone(job_id: str) -> bool:
    """Whether a job has ended, or Slurm no longer has it. Raises SlurmUnreachable.

    A job without any state in the queue counts as ended.
    """
    try:
        states = _answer_of("squeue", "-h", "-a", "-t", "all", "-o", "%T", "-j", job_id).split()
    except SlurmUnreachable as error:
        if "Invalid job id" in str(error):
            return True
        raise
    return all(state in GONE for state in states)


def requeue(job_id: str) -> None:
    """Put a running job, for example this one, back into the queue. Raises SlurmUnreachable."""
    _answer_of("scontrol", "requeue", job_id)


def _answer_of(*command: str) -> str:
    try:
        process = run(command, timeout_s=ASK_S)
    except OSError as error:
        raise SlurmUnreachable(f"{command[0]}: {error}") from error
    if process.code:
        raise SlurmUnreachable(f"{command[0]} exited with {process.code}: {process.complaint}")
    return process.text
