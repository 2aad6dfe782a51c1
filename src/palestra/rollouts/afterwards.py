"""Record a failure for a collection whose process was killed."""

import time
from pathlib import Path
from typing import Final

from palestra.errors import CallError, InputDataError, RowIdentity
from palestra.rollouts.journal import Journal, repair
from palestra.rollouts.recorded import REWARD, recorded_rows
from palestra.rollouts.results import FailedRow, failed
from palestra.schema import (
    FAILURE_CLASS,
    JsonDict,
    ReverifyCommand,
    RunPaths,
    key_of,
    read_jsonl,
)

FREE_WITHIN_S: Final = 2.0
"""The time in seconds to wait for the journal's lock, which a killed process may still hold."""


def record_afterwards(
    output: Path,
    error: CallError,
    *,
    max_attempts: int,
    elapsed_s: float,
    reverify_command: ReverifyCommand | None = None,
) -> FailedRow | None:
    """Write the attempt that ended with `error` to the failures file of the run at `output`, and
    return the row. `reverify_command`: the command that verifies the run's responses again.

    Return None when the error names no rollout of the run, or when that rollout is already scored
    or this attempt already recorded.
    """
    paths, row = RunPaths(output), error.evidence.row
    materialized = None if row is None else _materialized(paths, row)
    if row is None or materialized is None or _is_recorded(paths, materialized, row.attempt):
        return None
    result = failed(
        materialized,
        error,
        attempt=row.attempt,
        max_attempts=max_attempts,
        started_at=time.time() - elapsed_s,
        elapsed_s=elapsed_s,
        reverify_command=reverify_command,
    )
    _append(paths, result)
    return result


def _append(paths: RunPaths, result: FailedRow) -> None:
    deadline = time.monotonic() + FREE_WITHIN_S
    while True:
        try:
            with Journal(paths) as journal:
                repair(paths.failures)
                journal.append(result)
                journal.sync()
                return
        except InputDataError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _materialized(paths: RunPaths, row: RowIdentity) -> JsonDict | None:
    if not paths.materialized_inputs.exists():
        return None
    key = (row.task, row.rollout)
    lines = read_jsonl(paths.materialized_inputs)
    return next((line.row for line in lines if key_of(line.row) == key), None)


def _is_recorded(paths: RunPaths, materialized: JsonDict, attempt: int) -> bool:
    key = key_of(materialized)
    scored = recorded_rows(paths.output, REWARD)
    failures = recorded_rows(paths.failures, FAILURE_CLASS)
    return any(key_of(row) == key for row in scored) or any(
        key_of(row) == key and row.get("attempt", 0) >= attempt for row in failures
    )
