"""A shard is done only if expected = scored + failed-terminal; and the ledger's lines are whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.cluster import ledger
from palestra.cluster.layout import RunFiles, ShardFiles
from palestra.cluster.shard import (
    NotDone,
    ShardCounter,
    ShardCounts,
    count,
    is_done,
    write_done,
)


def row(task: int, rollout: int = 0, **more: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, **more}


def failure(task: int, attempt: int, *, terminal: bool) -> dict[str, Any]:
    return row(task, attempt=attempt, _ng_failure_terminal=terminal)


def write(path: Path, *rows: dict[str, Any], torn: str = "") -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows) + torn)


@pytest.fixture
def files(tmp_path: Path) -> ShardFiles:
    shard = RunFiles(tmp_path).shard("rollouts-rs0")
    write(shard.materialized_inputs, row(0), row(1), row(2))
    return shard


def test_rows_are_counted_by_key_and_a_torn_one_is_none(files: ShardFiles) -> None:
    write(files.output, row(0), row(0), torn='{"_ng_task_index": 1, "_ng_ro')
    write(files.failures, failure(2, 1, terminal=False), failure(2, 2, terminal=True))
    assert count(files) == ShardCounts(expected=3, scored=1, failed=1)


def test_of_several_attempts_the_last_one_decides(files: ShardFiles) -> None:
    write(files.output)
    write(files.failures, failure(0, 3, terminal=True), failure(0, 4, terminal=False))
    assert count(files).failed == 0


def test_what_scored_after_it_had_failed_has_scored(files: ShardFiles) -> None:
    write(files.output, row(0))
    write(files.failures, failure(0, 3, terminal=True))
    assert count(files) == ShardCounts(expected=3, scored=1, failed=0)


def test_rows_that_were_counted_are_not_read_again(files: ShardFiles) -> None:
    write(files.output, row(0))
    counter = ShardCounter()
    counter.count(files)
    size = files.output.stat().st_size
    with files.output.open("rb+") as file:
        file.write(b"x" * (size - 1))
        file.seek(size)
        file.write(json.dumps(row(1)).encode() + b"\n" + b'{"torn')

    assert counter.count(files) == ShardCounts(expected=3, scored=2, failed=0)


@pytest.mark.parametrize("name", ["materialized_inputs", "output", "failures"])
def test_a_shard_of_which_a_file_was_replaced_is_counted_anew(files: ShardFiles, name: str) -> None:
    write(files.output, row(0), row(1))
    write(files.failures, failure(2, 1, terminal=True))
    counter = ShardCounter()
    counter.count(files)
    path: Path = getattr(files, name)
    path.rename(path.with_suffix(".old"))
    write(path, *([row(0), row(1), row(2)] if name == "materialized_inputs" else []))

    assert counter.count(files) == count(files)


def test_a_row_that_nobody_asked_for_is_an_error(files: ShardFiles) -> None:
    write(files.output, row(7))
    with pytest.raises(NotDone, match=r"not request, such as \(7, 0\)"):
        count(files)


def test_done_is_written_only_when_nothing_is_left(files: ShardFiles) -> None:
    with pytest.raises(NotDone, match=r"expected 3 = scored 2 \+ failed 0 \+ left 1"):
        write_done(files, ShardCounts(3, 2, 0), {})
    write_done(files, ShardCounts(3, 2, 1), {"job_id": "7"})
    assert is_done(files)
    assert json.loads(files.done.read_bytes())["failed_terminal"] == 1


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"expected": 3, "scored": 2, "failed_terminal": 0}']
)
def test_a_done_file_that_does_not_add_up_proves_nothing(files: ShardFiles, text: str) -> None:
    files.done.write_text(text)
    write(files.output, row(0), row(1), row(2))
    assert not is_done(files)


def test_a_torn_line_of_the_ledger_costs_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "cluster" / "ledger.jsonl"
    ledger.append(path, {"event": "one"})
    with path.open("ab") as file:
        file.write(b'{"event": "to')
    ledger.append(path, {"event": "two"})
    with path.open("ab") as file:
        file.write(b'{"event": "thr')
    assert [event["event"] for event in ledger.events(path)] == ["one", "two"]
