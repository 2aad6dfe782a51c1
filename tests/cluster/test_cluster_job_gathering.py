"""Merging the shards of a run: whole or refused, also when two of them end at once."""

import json
import threading
from pathlib import Path

import pytest
from cluster_runs import World, collected, finish, world

from palestra.cli.clustering.main_steps import known_plan
from palestra.cluster.completeness import check_shards, write_completeness
from palestra.errors import InputDataError
from palestra.rollouts import MergeIncomplete, merge

AT_ONCE = 50


def gather(made: World, *, allow_partial: bool = False) -> None:
    """What the merge's main step does with files."""
    names = check_shards(made.run, made.files, allow_partial=allow_partial)
    merge(
        made.files.merged.output,
        [made.files.shard(name).output for name in names],
        allow_partial=allow_partial,
        overwrite=True,
    )


def keys(made: World) -> list[tuple[int, int]]:
    lines = made.files.merged.output.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def test_seeds_and_chunks_merge_without_a_collision(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=3, seeds=(0, 2), chunks=2, repeats=2)
    for shard in made.run.shards:
        collected(made, shard.name)
        finish(made, shard.name)
    gather(made)
    assert keys(made) == [(task, rollout) for task in range(3) for rollout in (0, 1, 4, 5)]


def test_a_merge_names_the_shards_that_are_not_done(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=4, chunks=2)
    collected(made, "rollouts-chunk0")
    finish(made, "rollouts-chunk0")
    with pytest.raises(MergeIncomplete, match="rollouts-chunk1: has not begun"):
        gather(made)
    collected(made, "rollouts-chunk1", but=1)
    with pytest.raises(MergeIncomplete, match=r"expected 2 = scored 1 \+ failed 0 \+ left 1"):
        gather(made)
    assert not made.files.merged.output.exists()


def test_a_plan_is_known_by_its_file_and_by_the_folder_of_its_run(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=2)

    assert known_plan(made.files.output_dir) == known_plan(made.submission.plan)


def test_what_is_there_can_be_merged_and_each_tasks_share_is_told(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=4, chunks=2)
    collected(made, "rollouts-chunk0", failed=1)
    finish(made, "rollouts-chunk0")
    collected(made, "rollouts-chunk1", but=1)
    with made.files.shard("rollouts-chunk1").output.open("a") as file:
        file.write('{"_ng_task_index": 3, "_ng_ro')  # a kill
    gather(made, allow_partial=True)
    said = write_completeness(made.run, made.files, allow_partial=True)
    assert "1 of 4 tasks lack rollouts: 3: 0 of 1" in said[0]
    told = [json.loads(line) for line in made.files.completeness.read_text().splitlines()]
    assert [(one["requested"], one["ended"]) for one in told] == [(1, 1), (1, 1), (1, 1), (1, 0)]
    assert made.files.shard("rollouts-chunk1").output.exists()


def test_a_whole_merge_takes_back_what_a_partial_one_said(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=2)
    made.files.completeness.write_text("{}\n")
    assert write_completeness(made.run, made.files, allow_partial=False) == ()
    assert not made.files.completeness.exists()


@pytest.mark.slow
def test_two_last_chunks_that_end_together_merge_right(tmp_path: Path) -> None:
    for number in range(AT_ONCE):
        made = world(tmp_path / str(number), tasks=4, chunks=2)
        start = threading.Barrier(2)
        ended: list[BaseException | None] = []

        def end(shard: str, made: World = made, start: threading.Barrier = start) -> None:
            collected(made, shard)
            start.wait(20)
            finish(made, shard)
            try:
                gather(made)
            except (MergeIncomplete, InputDataError) as error:
                ended.append(error)  # noqa: B023  # joined below
            else:
                ended.append(None)  # noqa: B023

        threads = [threading.Thread(target=end, args=(s.name,)) for s in made.run.shards]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert None in ended, ended
        assert keys(made) == [(task, 0) for task in range(4)]
        gather(made)  # and once more changes nothing
        assert keys(made) == [(task, 0) for task in range(4)]
