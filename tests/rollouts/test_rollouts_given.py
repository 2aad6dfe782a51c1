"""Rows that were materialized elsewhere, and a collection that is asked to start nothing more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import (
    AGENT,
    always,
    paths,
    prepared,
    read_rows,
    settings,
    task,
    write_rows,
)

from palestra.errors import InputDataError
from palestra.rollouts import Drained, PreparedRun, StaleRun, run
from palestra.settings import GivenRows, Share

REF = {"type": "responses_api_agents", "name": AGENT}


def given(number: int, rollout: int, **more: Any) -> dict[str, Any]:
    indices = {"_ng_task_index": number, "_ng_rollout_index": rollout, "agent_ref": REF}
    return {**task(number), **indices, **more}


def begun(
    folder: Path, *rows: dict[str, Any], digest: str = "of the run", **more: Any
) -> PreparedRun:
    """Shard 1 of 2 of a run of eight rollouts of four tasks."""
    write_rows(folder / "tasks.jsonl", rows)
    return prepared(folder, given=GivenRows(digest, 8, 4), shard=Share(1, 2), **more)


def test_given_rows_keep_both_of_their_indices(tmp_path: Path) -> None:
    rows = [given(2, 4), given(2, 5), given(3, 4)]
    made = begun(tmp_path, *rows)
    assert read_rows(paths(tmp_path).materialized_inputs) == rows
    manifest = made.manifest
    assert (manifest.input_digest, manifest.requested, manifest.tasks) == ("of the run", 3, 2)
    assert manifest.shard is not None
    assert (manifest.shard.index, manifest.shard.requested, manifest.shard.tasks) == (1, 8, 4)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (given(0, 0, _ng_rollout_index=None), "/_ng_rollout_index is None"),
        (given(0, 0, _ng_task_index=-1), "/_ng_task_index is -1"),
        (given(0, 0, agent_ref={"name": "nobody"}), "agent 'nobody' does not exist"),
    ],
)
def test_a_given_row_without_its_identity_is_refused(
    tmp_path: Path, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputDataError, match=problem):
        begun(tmp_path, row)


def test_a_given_share_of_other_rows_is_not_continued(tmp_path: Path) -> None:
    begun(tmp_path, given(2, 4))
    with pytest.raises(StaleRun, match="the input rows differ"):
        begun(tmp_path, given(2, 4), digest="of another run", resume_from_cache=True)


def test_once_it_drains_nothing_more_starts_and_the_rest_is_resumed(tmp_path: Path) -> None:
    rows = [given(number, 0) for number in range(4)]
    agent = always(1.0)
    made = begun(tmp_path, *rows, num_samples_in_parallel=1)

    def collect(what: PreparedRun, **more: Any) -> None:
        asked = settings(tmp_path, num_samples_in_parallel=1)
        asyncio.run(run(what, asked, agent.client, **more))

    with pytest.raises(Drained, match="2 of 4 have ended"):
        collect(made, draining=lambda: len(read_rows(paths(tmp_path).output)) >= 2)
    collect(begun(tmp_path, *rows, resume_from_cache=True))
    assert [row["_ng_task_index"] for row in read_rows(paths(tmp_path).output)] == [0, 1, 2, 3]
    assert not paths(tmp_path).failures.exists()
