"""Handing a rendered run to whatever runs jobs: four verbs, submit, status, cancel, logs.

slurm.py   Slurm, through its own commands
here.py    this machine (`local` and `none`): inside the command, one job after the other
"""

from palestra.cluster.executors.choose import executor_for
from palestra.cluster.executors.executor import (
    ClusterUnreachable,
    Executor,
    JobState,
    State,
    log_files,
    unit_ids,
)

__all__ = [
    "ClusterUnreachable",
    "Executor",
    "JobState",
    "State",
    "executor_for",
    "log_files",
    "unit_ids",
]
