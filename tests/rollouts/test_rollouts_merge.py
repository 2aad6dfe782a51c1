"""What the merged files of a run hold, and what is said about its shards."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from sharded_runs import (
    contents,
    edit_manifest,
    failed_row,
    keys,
    lines,
    run_of,
    scored_row,
    write_run,
    write_shards,
)

from palestra.errors import InputDataError, Outcome
from palestra.rollouts import (
    MergeIncomplete,
    MergePlan,
    merge,
    plan_merge,
    read_manifest,
)
from palestra.schema import RunPaths

MIXED = ("scored", "retried", "failed", "truncated")


def merged(folder: Path, *shards: Path, **options: Any) -> MergePlan:
    return merge(folder / "all" / "run.jsonl", shards or [folder / "shards"], **options)


def output(folder: Path) -> RunPaths:
    return RunPaths(folder / "all" / "run.jsonl")


def test_rows_come_in_key_order_and_keep_their_bytes(tmp_path: Path) -> None:
    run = run_of(tasks=5, repeats=3)
    write_shards(tmp_path / "shards", run, 2, order=random.Random(1))
    merged(tmp_path)

    assert output(tmp_path).output.read_bytes() == lines(run.scored)
    assert output(tmp_path).materialized_inputs.read_bytes() == lines(run.inputs)
    assert keys(output(tmp_path).output) == [(t, r) for t in range(5) for r in range(3)]


def test_negative_and_large_task_indices_sort_as_numbers(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=1)
    run.inputs = [{"_ng_task_index": n, "_ng_rollout_index": 0} for n in (2**60, -3, 11, 2)]
    run.scored = [scored_row(0, 0, _ng_task_index=n) for n in (11, 2**60, 2, -3)]
    run.tasks = 4
    write_run(tmp_path / "shards" / "a.jsonl", run)
    merged(tmp_path)

    assert [task for task, _ in keys(output(tmp_path).output)] == [-3, 2, 11, 2**60]


def test_every_rollout_is_accounted_for(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=8, repeats=2, endings=MIXED), 3)
    accounting = merged(tmp_path).accounting

    assert accounting.requested == 16
    assert accounting.ended == {
        Outcome.SCORED: 8,
        Outcome.TRUNCATED: 4,
        Outcome.DATA_ERROR: 4,
    }
    assert accounting.line().startswith("requested 16 = scored 12, 4 of them truncated")


def test_empty_answers_and_broken_tools_are_counted_as_the_collection_counted_them(
    tmp_path: Path,
) -> None:
    run = run_of(tasks=3, repeats=1)
    broken = [{"tool": "look_up", "type": "KeyError", "message": "'x'"}]
    run.scored[0] |= {"_ng_empty_answer": True}
    run.scored[2] |= {"tool_failures": broken * 2}
    write_shards(tmp_path / "shards", run, 2)

    accounting = merged(tmp_path).accounting

    assert accounting.empty_answers == 1
    assert (accounting.with_tool_failures, accounting.tool_failures["look_up: KeyError"]) == (1, 2)


def test_the_manifest_is_that_of_the_whole_run(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=8, repeats=2, endings=MIXED), 3)
    merged(tmp_path)
    manifest = read_manifest(output(tmp_path).manifest)
    held = json.loads(output(tmp_path).manifest.read_text())

    assert (manifest.requested, manifest.tasks, held["shard"]) == (16, 8, None)
    assert held["ended"] == {"data_error": 4, "scored": 8, "truncated": 4}
    assert manifest.digest == held["digest"]


def test_the_order_in_which_settings_were_given_is_not_in_the_manifest(tmp_path: Path) -> None:
    one, two = {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}
    run = run_of(tasks=2, repeats=1)
    for name, semantics in (("x", one), ("y", two)):
        write_run(tmp_path / name / "run.jsonl", run, semantics=semantics)
        merge(tmp_path / f"{name}-merged" / "run.jsonl", [tmp_path / name])

    assert contents(tmp_path / "x-merged") == contents(tmp_path / "y-merged")


def test_failed_attempts_come_by_key_and_attempt_each_once(tmp_path: Path) -> None:
    run = run_of(tasks=2, repeats=1)
    run.failures = [failed_row(1, 0, 2), failed_row(0, 0, 1), failed_row(1, 0, 1)]
    shard = write_run(tmp_path / "shards" / "a.jsonl", run)
    write_run(tmp_path / "shards" / "b.jsonl", run)
    plan = merged(tmp_path)
    rows = [json.loads(x) for x in RunPaths(shard).failures.read_text().splitlines()]

    found = output(tmp_path).failures.read_bytes()
    assert found == lines([rows[1], rows[2], rows[0]])
    assert plan.accounting.retried_attempts == 3


def test_attempts_of_two_collections_of_a_shard_are_all_kept_in_one_order(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=1)
    failures = [failed_row(0, 0, 1) | {"message": text} for text in ("b", "a", "c")]
    for name, some in (("x", failures[:1]), ("y", failures[1:2]), ("z", failures[2:])):
        run.failures = some
        write_run(tmp_path / "shards" / f"{name}.jsonl", run)
    merged(tmp_path)

    rows = output(tmp_path).failures.read_text().splitlines()
    assert [json.loads(row)["message"] for row in rows] == ["a", "b", "c"]


def test_a_run_without_failures_has_no_failures_file(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=2, repeats=1), 2)
    merged(tmp_path)

    assert sorted(contents(tmp_path / "all")) == [
        "run.jsonl",
        "run_manifest.json",
        "run_materialized_inputs.jsonl",
    ]


def test_a_score_outweighs_failures_of_the_same_rollout(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=1)
    run.failures = [failed_row(0, 0, 1, terminal=True)]
    write_run(tmp_path / "shards" / "a.jsonl", run)
    plan = merged(tmp_path)

    assert (plan.accounting.scored, plan.accounting.failed) == (1, 0)
    assert keys(output(tmp_path).failures) == [(0, 0)]


def test_the_last_of_several_final_failures_counts(tmp_path: Path) -> None:
    run = run_of(tasks=3, repeats=1, endings=("open",))
    for task, attempt, kind in (
        (2, 5, "verifier_error"),
        (2, 3, "timeout"),
        (1, 5, "verifier_error"),
        (0, 3, "timeout"),
        (1, 3, "timeout"),
    ):
        row = failed_row(task, 0, attempt, terminal=True)
        run.failures.append(row | {"_ng_failure_class": kind})
    write_run(tmp_path / "shards" / "a.jsonl", run)

    ended = merged(tmp_path).accounting.ended
    assert ended == {Outcome.VERIFIER_ERROR: 2, Outcome.TIMEOUT: 1}


def test_a_run_without_a_single_score_merges_too(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=3, repeats=1, endings=("failed",)), 3)

    assert merged(tmp_path).accounting.failed == 3
    assert output(tmp_path).output.read_bytes() == b""


def test_more_shards_than_tasks_are_fine(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=2, repeats=1), 7)

    assert merged(tmp_path).accounting.scored == 2


def test_a_run_that_asked_for_nothing_merges_to_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "shards" / "a.jsonl", run_of(tasks=0, repeats=1))

    assert merged(tmp_path).accounting.requested == 0
    assert output(tmp_path).output.read_bytes() == b""


def test_the_same_rows_in_two_files_are_kept_once_and_said(tmp_path: Path) -> None:
    run = run_of(tasks=3, repeats=1)
    for name in ("a", "b"):
        write_run(tmp_path / "shards" / f"{name}.jsonl", run)
    plan = merged(tmp_path)

    assert output(tmp_path).output.read_bytes() == lines(run.scored)
    assert "3 scored rows were there more than once, byte by byte; one is kept" in plan.notices


@pytest.mark.parametrize("reward", [0.5, 10.25], ids=["as long", "longer"])
def test_two_scores_for_one_rollout_are_refused(tmp_path: Path, reward: float) -> None:
    run = run_of(tasks=30, repeats=1)
    one = write_run(tmp_path / "shards" / "a.jsonl", run)
    run.scored = [scored_row(t, 0, reward) for t in range(30)]
    other = write_run(tmp_path / "shards" / "b.jsonl", run)

    with pytest.raises(InputDataError, match="30 rollouts are scored twice, differently") as caught:
        merged(tmp_path)
    assert f"9:0: {one} line 10 and {other} line 10\n  and 20 more" in caught.value.message
    assert not (tmp_path / "all").exists()


def test_a_torn_last_line_is_left_out_and_said_and_left_alone(tmp_path: Path) -> None:
    run = run_of(tasks=2, repeats=1)
    shard = write_run(tmp_path / "shards" / "a.jsonl", run, torn=lines(run.scored)[:-30])
    before = contents(tmp_path / "shards")
    plan = merged(tmp_path)

    assert output(tmp_path).output.read_bytes() == lines(run.scored)
    assert any("torn" in text and str(shard) in text for text in plan.notices)
    assert contents(tmp_path / "shards") == before


def test_what_has_not_ended_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    run = run_of(tasks=20, repeats=1, endings=("scored", "open"))
    write_shards(tmp_path / "shards", run, 2)

    with pytest.raises(MergeIncomplete) as caught:
        merged(tmp_path)
    assert caught.value.exit_code == 1
    assert "10 of 20 rollouts are missing" in caught.value.message
    assert "1:0, 3:0, 5:0, 7:0, 9:0, 11:0, 13:0, 15:0, 17:0, 19:0" in caught.value.message
    assert not (tmp_path / "all").exists()


def test_attempts_that_may_be_repeated_have_not_ended(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=2, endings=("scored", "open"))
    run.failures = [failed_row(0, 1, 1)]
    write_run(tmp_path / "shards" / "a.jsonl", run)

    with pytest.raises(MergeIncomplete, match="neither scored nor given up: 0:1"):
        merged(tmp_path)
    assert merged(tmp_path, allow_partial=True).accounting.retried_attempts == 0


def test_a_final_failure_that_another_attempt_followed_has_not_ended(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=2, endings=("scored", "open"))
    run.failures = [failed_row(0, 1, 1, terminal=True), failed_row(0, 1, 2)]
    write_run(tmp_path / "shards" / "a.jsonl", run)

    with pytest.raises(MergeIncomplete, match="neither scored nor given up: 0:1"):
        merged(tmp_path)


def test_missing_shards_are_named_by_their_index(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "shards", run_of(tasks=16, repeats=2), 16)

    with pytest.raises(MergeIncomplete) as caught:
        merged(tmp_path, *shards[1:3], *shards[4:])
    assert "of 16 shards these are missing: 0, 3" in caught.value.message
    assert "4 rollouts are in no shard that was given" in caught.value.message


def test_a_part_of_a_run_is_merged_on_demand(tmp_path: Path) -> None:
    run = run_of(tasks=6, repeats=2, endings=("scored", "scored", "scored", "open"))
    shards = write_shards(tmp_path / "shards", run, 3)
    plan = merged(tmp_path, *shards[:2], allow_partial=True)

    assert plan.accounting.line() == "requested 12 = scored 6 + failed 0 + not run 6"
    assert str(plan.completeness) == (
        "rollouts: 6 of 12 have ended (50.0 %); tasks: 2 complete, 2 partial, 2 absent"
    )
    assert read_manifest(output(tmp_path).manifest).requested == 12


def test_parts_that_were_merged_merge_to_the_whole(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "shards", run_of(tasks=6, repeats=2, endings=MIXED), 3)
    merge(tmp_path / "x" / "some.jsonl", shards[:2], allow_partial=True)
    merge(tmp_path / "y" / "rest.jsonl", shards[1:], allow_partial=True)
    merged(tmp_path, tmp_path / "x", tmp_path / "y")
    merge(tmp_path / "once" / "run.jsonl", shards)

    assert contents(tmp_path / "all") == contents(tmp_path / "once")


def test_planning_writes_nothing(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=2, repeats=1), 2)

    with plan_merge(tmp_path / "all" / "run.jsonl", [tmp_path / "shards"]) as plan:
        assert plan.completeness.complete
    assert not (tmp_path / "all").exists()


def test_files_of_other_tools_merge_with_a_warning(tmp_path: Path) -> None:
    run = run_of(tasks=4, repeats=1)
    for shard in write_shards(tmp_path / "shards", run, 2):
        RunPaths(shard).manifest.unlink()
        RunPaths(shard).materialized_inputs.unlink()
    plan = merged(tmp_path)

    assert sorted(contents(tmp_path / "all")) == ["run.jsonl"]
    assert output(tmp_path).output.read_bytes() == lines(run.scored)
    assert any("no shard has a manifest" in text for text in plan.notices)


def test_rows_that_only_python_reads_are_kept_as_they_are(tmp_path: Path) -> None:
    run = run_of(tasks=1, repeats=1)
    run.scored[0] |= {"logprob": float("nan"), "big": 10**30}
    write_run(tmp_path / "shards" / "a.jsonl", run)
    merged(tmp_path)

    assert b"NaN" in output(tmp_path).output.read_bytes()


def test_shards_that_ran_under_two_versions_say_so(tmp_path: Path) -> None:
    one, two = write_shards(tmp_path / "shards", run_of(tasks=2, repeats=1), 2)
    edit_manifest(one, palestra_version="2")
    merged(tmp_path, one, two)

    assert read_manifest(output(tmp_path).manifest).version == "1, 2"
