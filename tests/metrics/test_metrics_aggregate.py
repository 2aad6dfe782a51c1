"""The metrics environments report, in percent, and the answer to POST /aggregate_metrics."""

import random
from itertools import combinations
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.errors import InputDataError, RejectedRows
from palestra.metrics import (
    aggregate_metrics,
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from profiled_runs import scored


def attempts(*rewards: float, answers: str = "", **fields: Any) -> list[dict[str, Any]]:
    """Rollouts of one task; in `answers`, a letter each, `-` for none."""
    extracted = [{"extracted_answer": None if a == "-" else a} for a in answers]
    rows = extracted or [{} for _ in rewards]
    return [{"reward": reward, **row, **fields} for reward, row in zip(rewards, rows, strict=True)]


def test_binary_scores_get_the_unbiased_pass_at_k() -> None:
    metrics = compute_pass_majority_metrics([attempts(1, 0, 0, 0), attempts(0, 0, 0, 0)])

    assert metrics["pass@1/reward"] == pytest.approx(12.5)
    assert metrics["pass@2/reward"] == pytest.approx(25.0)
    assert metrics["pass@4/reward"] == pytest.approx(50.0)


def test_other_scores_get_the_expected_maximum_in_any_order() -> None:
    assert compute_pass_majority_metrics([attempts(0.0, 0.2, 0.8)])[
        "pass@2/reward"
    ] == pytest.approx(60.0)
    assert compute_pass_majority_metrics([attempts(0.8, 0.0, 0.2)])[
        "pass@2/reward"
    ] == pytest.approx(60.0)


SCORES = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=5)


@pytest.mark.slow
@given(st.lists(SCORES, min_size=1, max_size=4))
def test_best_and_worst_of_k_are_means_over_all_subsets(tasks: list[list[float]]) -> None:
    metrics = compute_pass_majority_metrics([attempts(*task) for task in tasks])

    for k in range(1, max(map(len, tasks)) + 1):
        drawn = [list(combinations(task, k)) for task in tasks if len(task) >= k]
        for name, of in ((f"pass@{k}", max), (f"pass^{k}", min)):
            expected = fmean(fmean(map(of, subsets)) for subsets in drawn)
            assert metrics[f"{name}/reward"] == pytest.approx(100 * expected, abs=1e-9)


def test_the_keys_are_those_of_the_field() -> None:
    metrics = compute_pass_majority_metrics([attempts(1, 0, answers="ab")], score_names=["reward"])

    assert set(metrics) == {"per_sample_aggregate"} | {
        f"{name}/{score}"
        for score in ("reward", "no_answer")
        for name in (
            *("pass@1", "pass@2", "pass^1", "pass^2", "majority@1", "majority@2"),
            *("pass@1[avg-of-1]", "pass@1[avg-of-2]"),
        )
    } | {
        f"pass@1[avg-of-2]/{score}/{spread}"
        for score in ("reward", "no_answer")
        for spread in ("std_dev_across_runs", "std_err_across_runs", "avg_sample_std_dev")
    }


def test_tasks_with_too_few_rollouts_do_not_count_for_k() -> None:
    metrics = compute_pass_majority_metrics([attempts(0), attempts(1, 1)])

    assert metrics["pass@1[avg-of-1]/reward"] == 50.0
    assert metrics["pass@1[avg-of-2]/reward"] == 100.0
    assert metrics["per_sample_aggregate"] == {"reward": [50.0, 100.0]}


def test_votes_are_reported_where_answers_are_extracted() -> None:
    tasks = [attempts(1, 1, 0, answers="aab"), attempts(0, 0, 0, answers="--c")]
    metrics = compute_pass_majority_metrics(tasks)

    assert metrics["majority@3/reward"] == 50.0
    assert metrics["pass@1[avg-of-3]/no_answer"] == pytest.approx(100 / 3)
    assert metrics["majority@2/no_answer"] == 50.0
    assert metrics["majority@3/no_answer"] == 0.0
    assert not any(
        name.startswith("majority") for name in compute_pass_majority_metrics([attempts(1)])
    )


def test_spread_is_between_runs_of_the_whole_set() -> None:
    metrics = compute_pass_majority_metrics([attempts(1, 0), attempts(1, 0)])

    deviation = metrics["pass@1[avg-of-2]/reward/std_dev_across_runs"]
    assert deviation == pytest.approx(100 * 0.5**0.5)
    assert metrics["pass@1[avg-of-2]/reward/std_err_across_runs"] == pytest.approx(50.0)
    assert metrics["pass@1[avg-of-2]/reward/avg_sample_std_dev"] == pytest.approx(deviation)


def test_the_highest_k_is_picked_without_its_spreads() -> None:
    metrics = compute_pass_majority_metrics([attempts(1, 0, answers="ab")])

    assert highest_k_metrics(metrics) == {
        "pass@1[avg-of-2]/reward": 50.0,
        "pass@1[avg-of-2]/no_answer": 0.0,
    }
    assert highest_k_metrics(metrics, "pass@{k}", score_names=["reward"]) == {
        "pass@2/reward": 100.0
    }


def test_subsets_are_prefixed_with_their_value() -> None:
    tasks = [attempts(1, level="easy"), attempts(0, level="hard"), attempts(0)]
    metrics = compute_subset_metrics(tasks, "level")

    assert metrics["easy/pass@1/reward"] == 100.0
    assert metrics["hard/pass@1/reward"] == 0.0


def test_a_missing_score_is_refused_by_name() -> None:
    with pytest.raises(InputDataError, match="score 'accuracy' of a rollout is None"):
        compute_pass_majority_metrics([attempts(1)], score_names=["accuracy"])


def test_no_tasks_give_no_metrics() -> None:
    assert compute_pass_majority_metrics([]) == {}
    assert aggregate_metrics([]) == {
        "group_level_metrics": [],
        "agent_metrics": {},
        "key_metrics": {},
    }


def test_responses_are_aggregated_by_task_whatever_their_order() -> None:
    rows = [
        scored(task, rollout, float(rollout), tokens=task) for task in (2, 1) for rollout in (0, 1)
    ]
    answer = aggregate_metrics(rows)
    random.Random(3).shuffle(rows)

    assert aggregate_metrics(rows) == answer
    assert [group["_ng_task_index"] for group in answer["group_level_metrics"]] == [1, 2]
    assert answer["group_level_metrics"][0]["mean/reward"] == 0.5
    assert answer["key_metrics"] == {
        "mean/reward": 0.5,
        "mean/input_tokens": 7.0,
        "mean/output_tokens": 1.5,
    }


def test_an_environments_own_metrics_join_the_shared_ones() -> None:
    answer = aggregate_metrics(
        [scored(0, 0, 1.0), scored(1, 0, 0.0)],
        compute_metrics=lambda tasks: {
            "own": len(tasks),
            "per_task_metrics": [{"solved": task[0]["reward"]} for task in tasks],
        },
        get_key_metrics=lambda metrics: {"own": metrics["own"]},
    )

    assert answer["key_metrics"] == {"own": 2}
    assert answer["agent_metrics"]["mean/reward"] == 0.5
    assert [group["solved"] for group in answer["group_level_metrics"]] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "pointers"),
    [
        ([{"reward": 1.0}], {"/0/_ng_task_index", "/0/_ng_rollout_index"}),
        ([scored(0, 0, 1.0), {**scored(0, 1, 1.0), "_ng_task_index": True}], {"/1/_ng_task_index"}),
        ([{**scored(0, 0, 1.0), "_ng_rollout_index": 2**63}], {"/0/_ng_rollout_index"}),
        ([scored(0, 0, float("nan"))], {"/0/reward"}),
        ([scored(0, 0, 1.0), scored(0, 0, 1.0)], {"/1"}),
    ],
)
def test_responses_that_cannot_be_aggregated_are_refused_by_row_and_field(
    rows: list[dict[str, Any]], pointers: set[str]
) -> None:
    with pytest.raises(RejectedRows) as refused:
        aggregate_metrics(rows)

    named = {problem.pointer for problem in refused.value.problems}
    assert named == {f"/verify_responses{pointer}" for pointer in pointers}
