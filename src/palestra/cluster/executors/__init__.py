"""Executors run the jobs of a rendered run. Each has four methods: submit, status, cancel, logs.

slurm.py   Slurm, through its own commands
here.py    this machine (`local` and `none`): inside the command, one job after the other
"""

from palestra.cluster.executors.executor import (
    ClusterUnreachable,
    Executor,
    JobState,
    Phase,
    log_files,
    unit_ids,
)
from palestra.cluster.executors.here import HereExecutor
from palestra.cluster.executors.slurm import SlurmExecutor
from palestra.errors import ConfigError

__all__ = [
    "ClusterUnreachable",
    "Executor",
    "JobState",
    "Phase",
    "executor_for",
    "log_files",
    "unit_ids",
]


def executor_for(name: str, *, timeout_s: float = 60.0) -> Executor:
    """Return the executor `name`. `timeout_s`: the limit of each Slurm command (not of running
    jobs).
    """
    if name == "slurm":
        return SlurmExecutor(timeout_s=timeout_s)
    if name in {"local", "none"}:
        return HereExecutor()
    raise ConfigError(f"unknown executor {name!r}", hint="slurm or none (also called local)")
