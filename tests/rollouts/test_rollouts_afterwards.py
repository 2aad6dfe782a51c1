"""An attempt that a guard records for a collection that was ended."""

from pathlib import Path

import orjson

from palestra.errors import RowIdentity, VerifierError, add_row
from palestra.rollouts import record_afterwards
from palestra.schema import RunPaths

KEY = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
ROW = RowIdentity(task=0, rollout=0, attempt=1, agent="agent", run="run")


def run_of(folder: Path, *scored: dict[str, object]) -> RunPaths:
    paths = RunPaths(folder / "rollouts.jsonl")
    paths.materialized_inputs.write_bytes(orjson.dumps(KEY) + b"\n")
    paths.output.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in scored))
    return paths


def record(paths: RunPaths) -> bool:
    error = add_row(VerifierError("x/verify was still running"), ROW)
    return record_afterwards(paths.output, error, max_attempts=1, elapsed_s=1.0) is not None


def test_the_attempt_is_recorded_once(tmp_path: Path) -> None:
    paths = run_of(tmp_path)

    assert [record(paths), record(paths)] == [True, False]
    assert len(paths.failures.read_bytes().splitlines()) == 1


def test_a_rollout_that_was_scored_at_the_last_moment_does_not_fail_too(tmp_path: Path) -> None:
    paths = run_of(tmp_path, {**KEY, "reward": 1.0})

    assert not record(paths)
    assert not paths.failures.exists()
