"""Handing a rendered run to whatever runs jobs: four verbs, submit, status, cancel, logs.

slurm.py   Slurm, through its own commands
local.py   this machine, in the background
none.py    this machine, inside the command
queue.py   what the last two share: jobs of one submission in order, one process each
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
