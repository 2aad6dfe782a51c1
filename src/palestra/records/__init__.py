"""Reads what the files of runs say: how far each run is, and everything about one rollout.

`palestra runs`, `palestra show` and the viewer print it. Nothing here needs the code of servers or
environments.
"""

from palestra.records.rollout_records import (
    FailedAttempt,
    FailureGroup,
    RolloutRecord,
    attempt_of,
    failure_groups,
    first_rollout,
    record_of,
    rollout_key,
    rollout_record,
    tools_of,
)
from palestra.records.run_entries import (
    RUNS_FOLDER,
    RunEntry,
    RunState,
    list_runs,
    run_entry,
)

__all__ = [
    "RUNS_FOLDER",
    "FailedAttempt",
    "FailureGroup",
    "RolloutRecord",
    "RunEntry",
    "RunState",
    "attempt_of",
    "failure_groups",
    "first_rollout",
    "list_runs",
    "record_of",
    "rollout_key",
    "rollout_record",
    "run_entry",
    "tools_of",
]
