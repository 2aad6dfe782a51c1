"""Shards: contiguous shares of one run's tasks, with the indices of the whole."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_runs import paths, prepared, read_rows, task, write_rows

from palestra.rollouts import PreparedRun, StaleRun
from palestra.settings import InputFile, Share


def shard_of(folder: Path, index: int, of: int, **changes: Any) -> list[dict[str, Any]]:
    """The materialized rows of one shard."""
    prepared(folder, shard=Share(index, of), overwrite=True, **changes)
    return read_rows(paths(folder).materialized_inputs)


def whole(folder: Path, **changes: Any) -> list[dict[str, Any]]:
    prepared(folder, overwrite=True, **changes)
    return read_rows(paths(folder).materialized_inputs)


@given(tasks=st.integers(0, 200), of=st.integers(1, 64))
def test_shares_cover_every_task_once_and_differ_by_one_at_most(tasks: int, of: int) -> None:
    shares = [list(range(tasks))[Share(index, of).share(tasks)] for index in range(of)]

    assert [number for share in shares for number in share] == list(range(tasks))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_together_are_the_whole_run_in_its_order(tmp_path: Path, of: int) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(n % 4) for n in range(6)])
    shards = [shard_of(tmp_path, index, of, num_repeats=2) for index in range(of)]

    rows = [row for shard in shards for row in shard]
    expected = sorted(
        whole(tmp_path, num_repeats=2), key=lambda r: (r["_ng_task_index"], r["_ng_rollout_index"])
    )
    assert sorted(rows, key=lambda r: (r["_ng_task_index"], r["_ng_rollout_index"])) == expected


def test_a_shard_keeps_the_task_indices_that_rows_bring(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(n, _ng_task_index=n) for n in (30, 10, 20)])

    assert [row["_ng_task_index"] for row in shard_of(tmp_path, 0, 3)] == [10]
    assert [row["_ng_task_index"] for row in shard_of(tmp_path, 2, 3)] == [30]


def test_the_manifest_of_a_shard_knows_the_whole(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(n) for n in range(5)])
    run: PreparedRun = prepared(tmp_path, shard=Share(1, 2), num_repeats=3)
    shard = run.manifest.shard

    assert (run.manifest.tasks, run.manifest.requested) == (3, 9)
    assert shard is not None
    assert (shard.index, shard.of, shard.tasks, shard.requested) == (1, 2, 5, 15)


def test_shards_of_one_run_share_their_digest(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(n) for n in range(5)])
    digests = {
        prepared(tmp_path, shard=shard, overwrite=True).manifest.digest
        for shard in (None, Share(0, 2), Share(1, 2))
    }

    assert len(digests) == 1


def test_a_shard_without_tasks_is_an_empty_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])

    assert prepared(tmp_path, shard=Share(0, 2)).remaining == 0


def test_another_shard_is_no_continuation(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(n) for n in range(4)])
    prepared(tmp_path, shard=Share(0, 2))

    with pytest.raises(StaleRun, match="shard: 0/2 -> 1/2"):
        prepared(tmp_path, shard=Share(1, 2), resume_from_cache=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2/2", "the last of 2 is 1/2"),
        ("1", "write I/N"),
        ("-1/4", "write I/N"),
        ("0/0", "there are none of 0"),
    ],
)
def test_a_wrong_shard_is_explained(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Share.parse(text)


def test_several_datasets_are_one_run_each_with_its_agent_and_repeats(tmp_path: Path) -> None:
    first = write_rows(tmp_path / "a.jsonl", [task(1), task(2), task(3)])
    second = write_rows(tmp_path / "b.jsonl", [task(1)])
    inputs = (InputFile(first, start=1, end=3), InputFile(second, agent="other_agent", repeats=2))
    rows = whole(tmp_path, inputs=inputs, agent_name="agent")

    assert [(row["agent_ref"]["name"], row["number"]) for row in rows] == [
        ("agent", 2),
        ("agent", 3),
        ("other_agent", 1),
        ("other_agent", 1),
    ]
    assert [row["_ng_rollout_index"] for row in rows] == [0, 0, 0, 1]
