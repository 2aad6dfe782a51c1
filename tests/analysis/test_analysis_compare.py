"""Comparing two runs: what is paired, what is found, what a gate makes of it."""

import gzip
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compared_runs import compared, sides, with_components, write_run
from hypothesis import given
from hypothesis import strategies as st

from palestra.analysis.comparison.compare import comparison_of, mcnemar_p
from palestra.analysis.comparison.pairing import (
    ComparedRun,
    load_side,
    pair_tasks,
    settings_that_differ,
)
from palestra.analysis.comparison.result import MetricComparison, judge_comparison
from palestra.analysis.fingerprints import fingerprints
from palestra.analysis.views import best_of_k, mean_of_present
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import Manifest
from palestra.schema import RunPaths

SOLVED = {task: [1.0, 1.0] for task in range(12)}
FAILED = {task: [0.0, 0.0] for task in range(12)}


def edit(path: Path, old: str, new: str, *, line: int | None = None) -> None:
    """Replace text in a file, or in one of its lines."""
    lines = path.read_text().splitlines(keepends=True)
    for at in range(len(lines)) if line is None else [line]:
        lines[at] = lines[at].replace(old, new)
    path.write_text("".join(lines))


def inputs_of(rollouts: Path) -> Path:
    return rollouts.with_name("rollouts_materialized_inputs.jsonl")


def test_each_task_weighs_the_same_however_many_rollouts_it_has(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [0.0], 1: [1.0]}, {0: [1.0] * 9, 1: [0.0, 1.0]})

    assert (found.reward.a, found.reward.b) == (0.5, 0.75)
    assert found.reward.difference.value == 0.25
    assert (found.better, found.worse, found.equal) == (1, 1, 0)


@pytest.mark.parametrize("rewards", [[0.8], [0.8, 0.2], [0.1, 0.2, -0.3], [1e-9]])
def test_equal_rewards_are_equal_however_many_rollouts_they_are_of(
    tmp_path: Path, rewards: list[float]
) -> None:
    comparison = compared(tmp_path, {0: rewards, 1: [0.0]}, {0: rewards * 6, 1: [1e-12]})

    assert (comparison.better, comparison.worse, comparison.equal) == (1, 0, 1)
    assert comparison.regressions == []


def test_a_clear_difference_is_found(tmp_path: Path) -> None:
    a = {task: [float(task < 3), 0.0] for task in range(12)}
    b = {task: [1.0, float(task < 6)] for task in range(12)}
    reward = compared(tmp_path, a, b).reward

    assert reward.p_value < 0.001
    assert 0 < reward.difference.low < reward.difference.value < reward.difference.high
    assert reward.minimum_detectable == pytest.approx(
        2.8016 * reward.difference.standard_error, 1e-3
    )


def test_a_failure_is_never_a_zero(tmp_path: Path) -> None:
    found = compared(tmp_path, SOLVED, SOLVED | {0: [1.0, None], 1: [None, None]})
    requested = found.reward.requested

    assert (found.reward.a, found.reward.b, found.reward.tasks, found.unscored) == (1.0, 1.0, 11, 1)
    assert (found.b.scored, found.b.failures) == (21, {"timeout": 3})
    assert requested.tasks == 12
    assert requested.b == (pytest.approx(21 / 24), 1.0)
    assert (requested.lowest.value, requested.highest.value) == (pytest.approx(-3 / 24), 0.0)


def test_both_views_are_one_when_nothing_is_missing(tmp_path: Path) -> None:
    assert compared(tmp_path, SOLVED, FAILED, "pass@2").reward.requested is None


def test_rewards_beyond_one_widen_what_missing_ones_can_be(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [5.0, -2.0], 1: [0.0, 0.0]}, {0: [None, 0.0], 1: [0.0, 0.0]})

    assert found.reward.requested.b == (-0.5, 1.25)


def test_metrics_are_fields_and_pass_at_k_with_one_correction_for_all(tmp_path: Path) -> None:
    a = {task: [float(task < 4), 0.0] for task in range(12)}
    found = compared(tmp_path, a, SOLVED, "pass@2", "output_tokens")
    reward, best, tokens = found.metrics

    assert (best.name, best.a, best.b) == ("pass@2", pytest.approx(4 / 12), 1.0)
    assert (tokens.a, tokens.b, tokens.p_value) == (55.5, 55.5, 1.0)
    assert reward.p_adjusted == pytest.approx(3 * reward.p_value)
    assert best.p_adjusted == pytest.approx(2 * best.p_value)


def renamed_component(folder: Path) -> tuple[ComparedRun, ComparedRun]:
    """Two runs; a component of the reward was renamed between them."""
    a = with_components(write_run(folder / "a", SOLVED), right=1.0, short=0.0)
    b = with_components(write_run(folder / "b", SOLVED), rights=1.0, short=0.0)
    return load_side(a, name="A"), load_side(b, name="B")


def test_components_that_only_one_run_has_are_listed(tmp_path: Path) -> None:
    a, b = renamed_component(tmp_path)

    comparison = comparison_of(a, b, pair_tasks(a, b))

    assert [m.name for m in comparison.metrics] == ["reward", "reward_components.short"]
    text = "components of the reward that are not compared: only A has right; only B has rights"
    assert text in comparison.notices


def compared_components(folder: Path, a: list[float], b: list[float]) -> MetricComparison:
    """The comparison of one component, whose values are these in two runs of so many tasks."""
    one, other = (write_run(folder / name, {t: [1.0] for t in range(len(a))}) for name in "ab")
    for rollouts, values in ((one, a), (other, b)):
        rows = [json.loads(line) for line in rollouts.read_text().splitlines()]
        for row, value in zip(rows, values, strict=True):
            row["reward_components"] = {"right": value}
        rollouts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_a, run_b = load_side(one, name="A"), load_side(other, name="B")
    return comparison_of(run_a, run_b, pair_tasks(run_a, run_b)).metrics[1]


def test_the_interval_of_a_component_from_0_to_1_ends_at_a_difference_of_1(tmp_path: Path) -> None:
    difference = compared_components(tmp_path, [1.0, 1.0, 0.5], [0.0, 0.0, 0.5]).difference

    assert difference.low == -1.0


def test_the_interval_of_a_component_of_any_size_has_no_limits(tmp_path: Path) -> None:
    difference = compared_components(tmp_path, [30.0, 30.0, 15.0], [0.0, 0.0, 15.0]).difference

    assert difference.low < -30.0


def test_a_metric_that_one_run_lacks_is_refused_with_the_nearest_that_it_has(
    tmp_path: Path,
) -> None:
    a, b = renamed_component(tmp_path)

    with pytest.raises(InputDataError) as caught:
        comparison_of(a, b, pair_tasks(a, b), metrics=["reward_components.right"])

    assert caught.value.hint == (
        "B has no reward_components.right; did you mean 'reward_components.rights'?"
    )


def test_pass_at_k_is_of_tasks_that_have_k_in_both_runs(tmp_path: Path) -> None:
    found = compared(tmp_path, SOLVED | {3: [1.0]}, SOLVED | {5: [1.0, None]}, "pass@2")

    assert found.metrics[1].tasks == 10


def test_pass_at_more_than_anybody_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"no task has the metric pass@3 in both .*"):
        compared(tmp_path, SOLVED, SOLVED, "pass@3")


def test_a_misspelt_metric_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'output_tokens'"):
        compared(tmp_path, SOLVED, SOLVED, "output_token")


def test_a_field_too_large_to_compute_with_is_refused_by_name(tmp_path: Path) -> None:
    one, other = (write_run(tmp_path / name, {0: [1.0], 1: [0.0]}) for name in "ab")
    for path, score in ((one, b"1.5"), (other, b"1e200")):
        row = path.read_bytes()
        path.write_bytes(row.replace(b'"reward"', b'"score": %s, "reward"' % score))
    a, b = load_side(one, name="A"), load_side(other, name="B")

    with pytest.raises(InputDataError, match="values of score are beyond"):
        comparison_of(a, b, pair_tasks(a, b), metrics=["score"])


def test_mcnemar_is_of_single_binary_rollouts(tmp_path: Path) -> None:
    a = {task: [float(task in {0, 1, 2})] for task in range(12)}
    b = {task: [float(task in {2, 5, 6, 7, 8, 9})] for task in range(12)}
    test = compared(tmp_path, a, b).reward.mcnemar

    assert (test.only_a, test.only_b) == (2, 5)
    assert test.p_value == mcnemar_p(2, 5) == pytest.approx(58 / 128)


@pytest.mark.parametrize("b", [SOLVED, {task: [0.5] for task in range(12)}])
def test_other_rewards_have_no_mcnemar(tmp_path: Path, b: dict[int, list[float]]) -> None:
    a = {task: [1.0] for task in range(12)}

    assert compared(tmp_path, a, b).reward.mcnemar is None


def test_the_ten_tasks_that_fell_most_are_named(tmp_path: Path) -> None:
    b = {task: [0.0, float(task > 1)] for task in range(12)} | {11: [1.0, 1.0]}
    falls = compared(tmp_path, SOLVED, b).regressions

    assert [fall.task for fall in falls] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (falls[0].a, falls[0].b, falls[0].change, falls[2].change) == (1.0, 0.0, -1.0, -0.5)
    assert (falls[0].a_rollouts, falls[0].b_rollouts) == (2, 2)


def test_tasks_of_one_run_only_are_refused_with_the_first_ten(tmp_path: Path) -> None:
    a, b = sides(tmp_path, SOLVED, {0: [1.0, 1.0], 40: [1.0, 1.0]})

    with pytest.raises(InputDataError, match="11 only in A") as caught:
        pair_tasks(a, b)

    assert (
        "11 only in A (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …); 1 only in B (40)" in caught.value.message
    )
    assert "--allow-unmatched" in caught.value.hint


def test_unmatched_tasks_are_left_out_when_told(tmp_path: Path) -> None:
    a, b = sides(tmp_path, SOLVED, {0: [1.0, 1.0], 40: [1.0, 1.0]})
    pairs = pair_tasks(a, b, allow_unmatched=True)

    assert pairs.tasks == [0]
    assert pairs.notices == [
        "tasks left out: 11 only in A (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …); 1 only in B (40)"
    ]


def test_runs_without_a_common_task_are_refused_whatever_is_allowed(tmp_path: Path) -> None:
    a, b = sides(tmp_path, {0: [1.0]}, {1: [1.0]})

    with pytest.raises(InputDataError, match="share no task index"):
        pair_tasks(a, b, allow_unmatched=True, allow_different_rows=True)


def test_another_prompt_under_the_same_index_is_refused_and_named(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", SOLVED), name="A")
    path = write_run(tmp_path / "b", SOLVED)
    edit(inputs_of(path), "question 3", "question 33")
    b = load_side(path, name="B")

    with pytest.raises(InputDataError, match=r"1 of 12 tasks have a different prompt") as caught:
        pair_tasks(a, b)

    assert caught.value.message.endswith(": 3 (responses_create_params.input)")
    assert 3 not in pair_tasks(a, b, allow_unmatched=True).tasks
    assert 3 in pair_tasks(a, b, allow_different_rows=True).tasks


def test_a_reordered_dataset_is_recognised(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", SOLVED), name="A")
    path = write_run(tmp_path / "b", SOLVED)
    for old, new in (
        ("question 3", "question X"),
        ("question 4", "question 3"),
        ("question X", "question 4"),
    ):
        edit(inputs_of(path), old, new)

    with pytest.raises(InputDataError, match=r"2 of 12") as caught:
        pair_tasks(a, load_side(path, name="B"))

    assert "2 of these rows have another task index" in caught.value.hint
    pairs = pair_tasks(a, load_side(path, name="B"), by_rows=True)
    assert (pairs.tasks_of_b[3], pairs.tasks_of_b[4]) == (4, 3)


def test_a_selection_of_the_first_run_is_recognised(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", SOLVED), name="A")
    path = write_run(tmp_path / "b", {0: [1.0], 1: [1.0]})
    for old, new in (("question 0", "question 3"), ("question 1", "question 7")):
        edit(inputs_of(path), old, new)

    with pytest.raises(InputDataError, match="do not have the same tasks") as caught:
        pair_tasks(a, load_side(path, name="B"))

    assert "palestra select" in caught.value.hint
    assert "--allow-unmatched" not in caught.value.hint
    with pytest.raises(InputDataError, match="10 only in A") as caught:
        pair_tasks(a, load_side(path, name="B"), by_rows=True)
    assert "--allow-unmatched" in caught.value.hint


def test_a_selection_is_paired_by_its_rows(tmp_path: Path) -> None:
    rewards = {task: [float(task), float(task)] for task in range(12)}
    a = load_side(write_run(tmp_path / "a", rewards), name="A")
    path = write_run(tmp_path / "b", {0: [3.5], 1: [7.5]})
    for old, new in (("question 0", "question 3"), ("question 1", "question 7")):
        edit(inputs_of(path), old, new)
    b = load_side(path, name="B")
    pairs = pair_tasks(a, b, allow_unmatched=True, by_rows=True)

    assert (pairs.tasks, pairs.tasks_of_b) == ([3, 7], [0, 1])
    assert any("paired by their rows" in text for text in pairs.notices)
    comparison = comparison_of(a, b, pairs)
    assert comparison.metrics[0].difference.value == 0.5


def test_rows_that_are_twice_in_a_run_are_not_paired_by_rows(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", {0: [1.0], 1: [1.0], 2: [1.0]}), name="A")
    path = write_run(tmp_path / "b", {0: [1.0], 1: [1.0]})
    edit(inputs_of(path), "question 0", "question 2")
    edit(inputs_of(path), "question 1", "question 2")

    with pytest.raises(InputDataError):
        pair_tasks(a, load_side(path, name="B"), allow_unmatched=True, by_rows=True)


def test_another_expected_answer_is_another_task(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", SOLVED, expected_answer="4"), name="A")
    b = load_side(write_run(tmp_path / "b", SOLVED, expected_answer="5"), name="B")

    with pytest.raises(InputDataError, match=r"12 of 12 .*: 0 \(expected_answer\), 1 "):
        pair_tasks(a, b)


def test_spelling_agent_and_sampling_do_not_make_another_task(tmp_path: Path) -> None:
    a = load_side(write_run(tmp_path / "a", SOLVED, note={"x": 1, "y": 2}), name="A")
    path = write_run(tmp_path / "b", SOLVED, note={"y": 2, "x": 1}, agent_ref={"name": "other"})
    edit(
        inputs_of(path),
        '"input": [',
        '"temperature": 0.7, "metadata": {"extra_body": "{\\"seed\\": 1}"}, "input":   [',
    )
    b = load_side(path, name="B")

    pairs = pair_tasks(a, b)
    assert len(pairs.tasks) == 12
    assert settings_that_differ(a, b, pairs) == ["temperature: absent -> 0.7"]


def test_a_run_that_mixes_prompts_under_one_index_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", SOLVED)
    edit(inputs_of(path), "question 3", "question 33", line=7)

    with pytest.raises(InputDataError, match=r"1 task indices each have .*: 3 \(.* line 8\)"):
        load_side(path, name="A")


def test_seeds_of_rollouts_do_not_make_a_mix(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", SOLVED)
    rows = [json.loads(line) for line in inputs_of(path).read_text().splitlines()]
    for row in rows:
        seed = json.dumps({"seed": row["_ng_rollout_index"]})
        row["responses_create_params"]["metadata"] = {"extra_body": seed}
    inputs_of(path).write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert len(load_side(path, name="A").fingerprints) == 12


def test_a_run_without_its_inputs_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", SOLVED)
    inputs_of(path).unlink()

    with pytest.raises(InputDataError, match=r"materialized inputs of .* does not exist"):
        load_side(path, name="A")


def test_a_gate_passes_what_is_not_worse(tmp_path: Path) -> None:
    assert judge_comparison(compared(tmp_path, SOLVED, SOLVED)).passed
    assert judge_comparison(compared(tmp_path, FAILED, SOLVED)).passed


def test_a_gate_fails_what_is_worse_unless_it_is_within_the_tolerance(tmp_path: Path) -> None:
    b = {task: [1.0, float(task > 5)] for task in range(12)}
    found = compared(tmp_path, SOLVED, b)

    assert not judge_comparison(found).passed
    assert judge_comparison(found).reason.startswith(
        "the whole 95 % interval of B - A lies below 0: reward -0.25"
    )
    assert judge_comparison(found, tolerance=0.3).passed


def test_a_gate_fails_when_missing_rollouts_could_hide_a_regression(tmp_path: Path) -> None:
    found = compared(tmp_path, SOLVED, {task: [1.0, None] for task in range(12)})
    gate = judge_comparison(found)

    assert not gate.passed
    assert "too many rewards are missing" in gate.reason
    assert judge_comparison(found, scored_only=True).passed


def test_a_gate_that_sees_one_task_fails(tmp_path: Path) -> None:
    assert not judge_comparison(compared(tmp_path, {0: [0.0]}, {0: [1.0]})).passed


@pytest.mark.parametrize("end", ["value", "low", "high"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_gate_refuses_a_difference_that_is_not_finite(
    tmp_path: Path, end: str, number: float
) -> None:
    found = compared(tmp_path, SOLVED, SOLVED)
    difference = replace(found.reward.difference, **{end: number})
    broken = replace(found, metrics=[replace(found.reward, difference=difference)])

    with pytest.raises(InputDataError, match="not finite, so the gate cannot decide"):
        judge_comparison(broken)


def test_a_gate_refuses_a_range_that_is_not_finite_unless_it_leaves_it_out(tmp_path: Path) -> None:
    found = compared(tmp_path, SOLVED, {task: [1.0, None] for task in range(12)})
    lowest = replace(found.reward.requested.lowest, high=math.nan)
    reward = replace(found.reward, requested=replace(found.reward.requested, lowest=lowest))
    broken = replace(found, metrics=[reward])

    with pytest.raises(InputDataError, match="not finite"):
        judge_comparison(broken)
    assert judge_comparison(broken, scored_only=True).passed


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e80, 1e100])
def test_the_largest_rewards_are_compared_without_overflow(tmp_path: Path, size: float) -> None:
    a = {task: [size, size / (task + 1)] for task in range(12)}
    b = {task: [-size, None] for task in range(12)}

    assert not judge_comparison(compared(tmp_path, a, b)).passed


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=6),
    st.integers(1, 6),
)
def test_task_values_are_those_of_each_task_alone(groups: list[list[float]], k: int) -> None:
    values = np.concatenate(groups)
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    best = best_of_k(values, starts, k)

    assert mean_of_present(values, starts) == pytest.approx([np.mean(group) for group in groups])
    assert [bool(x) for x in np.isnan(best)] == [len(group) < k for group in groups]
    full = [max(group) for group in groups if len(group) == k]
    assert [x for x, group in zip(best, groups, strict=True) if len(group) == k] == pytest.approx(
        full
    )


def test_shards_and_packed_files_make_a_side(tmp_path: Path) -> None:
    whole = load_side(write_run(tmp_path / "whole", SOLVED), name="A")
    for half, tasks in enumerate((range(6), range(6, 12))):
        path = write_run(tmp_path / str(half), {task: SOLVED[task] for task in tasks})
        for file in (path, inputs_of(path)):
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    shards = load_side(f"{tmp_path}/[01]/*.jsonl.gz", name="B")

    assert pair_tasks(whole, shards).tasks == list(range(12))
    assert shards.fingerprints == whole.fingerprints


@pytest.mark.parametrize(("edited", "notices"), [("0f" * 32, 0), ("1f" * 32, 1)])
def test_a_verifier_that_was_edited_between_the_runs_is_a_notice(
    tmp_path: Path, edited: str, notices: int
) -> None:
    digests = {"a": "0f" * 32, "b": edited}
    for name, digest in digests.items():
        run = RunPaths(write_run(tmp_path / name, SOLVED))
        server = {"type": "resources_servers", "implementation": "mail", "settings": {}}
        code = {"mail": {"app.py": digest, "rules.py": "0f" * 32}}
        Manifest("", {"servers": {"mail": server}, "code": code}, 24, 12, "1").write(run.manifest)
    one, other = (load_side(tmp_path / name / "rollouts.jsonl", name=name) for name in digests)

    found = comparison_of(one, other, pair_tasks(one, other)).notices

    assert [n for n in found if "the code of mail is not the same in a and b (app.py)" in n] == [
        n for n in found if "code" in n
    ]
    assert len([n for n in found if "code" in n]) == notices


def with_settings(rollouts: Path, name: str, **settings: object) -> ComparedRun:
    """The run at `rollouts` with these settings of its environment `mail`, in one file."""
    server = {
        "type": "resources_servers",
        "implementation": "environment_file",
        "settings": {"path": str(rollouts.parent / "mail.py"), "settings": settings},
    }
    semantics = {"servers": {"mail": server}, "code": {"mail": {"mail.py": "0f" * 32}}}
    Manifest("", semantics, 24, 12, "1").write(RunPaths(rollouts).manifest)
    return load_side(rollouts, name=name)


def test_a_setting_of_the_environment_that_differs_is_a_notice(tmp_path: Path) -> None:
    key = {"answer_key": "sha256:0123456789ab"}
    a = with_settings(write_run(tmp_path / "a", SOLVED), "A", bad=-1, strict=True, **key)
    other_key = {"answer_key": "sha256:ba9876543210"}
    b = with_settings(write_run(tmp_path / "b", SOLVED), "B", bad=3, strict=True, **other_key)

    [notice] = comparison_of(a, b, pair_tasks(a, b)).notices

    assert "the settings of mail are not the same in A and B" in notice
    assert "bad: -1 -> 3" in notice
    assert "answer_key" in notice
    assert "sha256" not in notice
    assert not pair_tasks(a, a).notices


def test_environments_with_equal_settings_in_other_folders_are_no_notice(tmp_path: Path) -> None:
    a = with_settings(write_run(tmp_path / "a", SOLVED), "A", bad=3)
    b = with_settings(write_run(tmp_path / "b", SOLVED), "B", bad=3)

    assert not pair_tasks(a, b).notices


def test_a_difference_inside_a_nested_field_is_seen(tmp_path: Path) -> None:
    rows = [
        f'{{"note":{{"x":1,"_ng_rollout_index":{r}}},"_ng_task_index":3,"_ng_rollout_index":{r}}}\n'
        f'{{"_ng_task_index":4,"_ng_rollout_index":{r},"note":{{"x":1,"_ng_rollout_index":{r}}}}}\n'
        for r in range(2)
    ]
    (tmp_path / "inputs.jsonl").write_text("".join(sorted(rows)))

    with pytest.raises(InputDataError, match=r"2 task indices .*: 3 "):
        fingerprints([tmp_path / "inputs.jsonl"])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_a_mix_is_found_wherever_it_is(prompts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inputs.jsonl"
        path.write_text(
            "".join(
                json.dumps(
                    {"prompt": x, "_ng_task_index": 0, "_ng_rollout_index": r},
                    separators=(",", ":"),
                )
                + "\n"
                for r, x in enumerate(prompts)
            )
        )
        if len(set(prompts)) == 1:
            assert len(fingerprints([path])) == 1
        else:
            with pytest.raises(InputDataError, match="rollouts of different rows"):
                fingerprints([path])
