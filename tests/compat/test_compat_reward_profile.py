"""`nemo_gym.reward_profile` computes the metrics of repeated attempts as the field defines them."""

from collections.abc import Sequence
from typing import Any

import pytest

from palestra.compat.nemo_gym.reward_profile import (
    PassMetrics,
    add_avg_sample_std_dev,
    compute_aggregate_metrics,
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)

PAIR = [[{"reward": 1.0}, {"reward": 0.0}]]

ALLOWED_STARTS = ("pass@", "majority@")


def task(*rewards: float, **fields: Any) -> list[dict[str, Any]]:
    return [{"reward": reward, "answer": str(reward), **fields} for reward in rewards]


def score_j(row: Any) -> dict[str, Any]:
    return {"j": row["j"]} if "j" in row else {}


@pytest.fixture
def metrics() -> PassMetrics:
    return compute_pass_majority_metrics(PAIR)


# The result


def test_compute_pass_majority_metrics_is_read_by_name(metrics: PassMetrics) -> None:
    names = list(metrics.keys())

    assert "pass@1/accuracy" in names
    assert all(name in metrics for name in names)
    assert metrics.get("pass@1/accuracy") == metrics["pass@1/accuracy"] == 50.0
    assert metrics.get("unheard_of") is None


def test_compute_pass_majority_metrics_is_taken_apart_into_four_parts(metrics: PassMetrics) -> None:
    by_name, *rest = metrics

    assert by_name == metrics[0] == dict(metrics.items())
    assert rest == [[[{"accuracy": 1.0}, {"accuracy": 0.0}]], ["accuracy"], 2]


def test_compute_pass_majority_metrics_can_be_spread(metrics: PassMetrics) -> None:
    spread: dict[str, Any] = {**metrics, "own": 1}

    assert spread["pass@1/accuracy"] == 50.0


# compute_pass_majority_metrics


def test_default_score_is_accuracy_and_needs_a_reward() -> None:
    assert compute_pass_majority_metrics(PAIR)["pass@2/accuracy"] == 100.0
    with pytest.raises(KeyError):
        compute_pass_majority_metrics([[{"score": 1.0}]])


def test_arguments_are_tasks_then_score_function_then_answer_key() -> None:
    metrics = compute_pass_majority_metrics(
        [task(1, 1)], lambda row: {"s": row["reward"]}, "answer"
    )

    assert metrics["majority@2/s"] == 100.0


@pytest.mark.parametrize(
    ("rewards", "k", "expected"),
    [
        pytest.param((0.8, 0.6), 1, 80.0, id="graded: the first, not the mean"),
        pytest.param((0.6, 0.8, 0.1), 2, 80.0, id="graded: the best of the first two"),
        pytest.param((0, 1, 0, 0), 1, 25.0, id="binary: unbiased"),
        pytest.param((0, 1, 0, 0), 2, 50.0, id="binary: unbiased for two"),
    ],
)
def test_pass_at_k_of_graded_scores_is_the_maximum_of_the_first_k(
    rewards: Sequence[float], k: int, expected: float
) -> None:
    metrics = compute_pass_majority_metrics([task(*rewards)])

    assert metrics[f"pass@{k}/accuracy"] == pytest.approx(expected)


def test_keys_are_those_of_the_field_alone() -> None:
    metrics = dict(compute_pass_majority_metrics([task(1, 0)], None, "answer").items())

    with_score = [name for name in metrics if "/" in name]
    assert all(name.startswith(ALLOWED_STARTS) for name in with_score)
    assert not any("avg_sample_std_dev" in name for name in with_score)
    assert [name for name in metrics if "/" not in name] == ["per_sample_aggregate"]


def test_ragged_tasks_all_count_in_averages_and_majorities_but_not_in_pass_at_k() -> None:
    metrics = compute_pass_majority_metrics([task(1, 0), task(0)], None, "answer")

    assert metrics["pass@1[avg-of-2]/accuracy"] == 25.0
    assert metrics["majority@2/accuracy"] == 25.0
    assert metrics["pass@2/accuracy"] == 100.0


def test_deviations_are_over_the_means_of_the_runs() -> None:
    metrics = compute_pass_majority_metrics([task(1, 0), task(1, 1)])

    average = "pass@1[avg-of-2]/accuracy"
    assert metrics["per_sample_aggregate"] == {"accuracy": [100.0, 50.0]}
    assert metrics[f"{average}/std_dev_across_runs"] == pytest.approx(35.3553, abs=1e-3)
    assert metrics[f"{average}/std_err_across_runs"] == pytest.approx(25.0)


def test_a_rollout_without_a_score_is_left_out_of_that_score() -> None:
    metrics = compute_pass_majority_metrics([[{"reward": 1, "j": 1.0}, {"reward": 0}]], score_j)

    assert metrics["pass@1[avg-of-2]/j"] == 100.0
    assert "pass@2/j" not in metrics


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([("a", 1), ("a", 1), ("b", 0)], 100.0, id="most votes"),
        pytest.param([("a", 1), ("b", 0)], 50.0, id="a tie"),
        pytest.param([("a", 1), ("a", 0), ("b", 1), ("b", 1)], 100.0, id="pairs, not answers"),
        pytest.param([(None, 1), (None, 1)], 0.0, id="no answers"),
        pytest.param([(["x"], 1), (["x"], 1), (["y"], 0)], 100.0, id="answers that are lists"),
    ],
)
def test_votes_are_counted_on_pairs_of_answer_and_score(
    rows: Sequence[tuple[Any, float]], expected: float
) -> None:
    tasks = [[{"reward": reward, "answer": answer} for answer, reward in rows]]

    metrics = compute_pass_majority_metrics(tasks, None, "answer")

    assert metrics[f"majority@{len(rows)}/accuracy"] == pytest.approx(expected)


def test_no_answer_is_a_score_whose_majority_is_0() -> None:
    tasks = [[{"reward": 1, "answer": None}], [{"reward": 1, "answer": "a"}]]

    metrics = compute_pass_majority_metrics(tasks, None, "answer")

    assert metrics["pass@1/no_answer"] == 50.0
    assert metrics["majority@1/no_answer"] == 0.0


def test_no_tasks_have_no_metrics() -> None:
    assert tuple(compute_pass_majority_metrics([])) == ({}, [], [], 0)


# add_avg_sample_std_dev


def test_add_avg_sample_std_dev_adds_in_place_from_k_2_and_not_in_percent() -> None:
    metrics, score_dicts, names, max_k = compute_pass_majority_metrics([task(1, 0), task(1)])

    add_avg_sample_std_dev(metrics, score_dicts, names, max_k)

    added = {name: value for name, value in metrics.items() if "avg_sample_std_dev" in name}
    assert added == {
        "pass@1[avg-of-2]/accuracy/avg_sample_std_dev": pytest.approx(0.70710678),
    }


def test_add_avg_sample_std_dev_adds_nothing_for_one_rollout() -> None:
    metrics: dict[str, Any] = {}

    add_avg_sample_std_dev(metrics, [[{"accuracy": 1.0}]], ["accuracy"], 1)

    assert metrics == {}


# compute_subset_metrics


def test_compute_subset_metrics_keeps_the_order_and_leaves_out_falsy_values() -> None:
    tasks = [task(1, level="hard"), task(0, level="easy"), task(1, level=""), task(1, level=None)]

    metrics = compute_subset_metrics(tasks, "level", None, "answer")

    subsets = list(dict.fromkeys(name.partition("/")[0] for name in metrics))
    assert subsets == ["hard", "easy"]
    assert metrics["hard/pass@1/accuracy"] == 100.0
    assert not any("per_sample_aggregate" in name for name in metrics)


# highest_k_metrics


def test_highest_k_metrics_filters_by_name_before_it_takes_the_largest_k() -> None:
    metrics = {"pass@2/acc": 1, "pass@4/b": 2, "pass@4/b/std_dev_across_runs": 3}

    assert highest_k_metrics(metrics, "pass@{k}", score_names=["acc"]) == {"pass@2/acc": 1}
    assert highest_k_metrics(metrics, "pass@{k}", exclude_names=["b"]) == {"pass@2/acc": 1}
    assert highest_k_metrics(metrics, "pass@{k}") == {"pass@4/b": 2}


def test_highest_k_metrics_reads_a_pattern_without_k() -> None:
    assert highest_k_metrics({"mean/a": 1, "pass@2/a": 2}, "mean") == {"mean/a": 1}


# compute_aggregate_metrics


def test_compute_aggregate_metrics_group_rows_tell_how_many_rollouts_were_expected() -> None:
    rows = [
        {
            "_ng_task_index": 3,
            "_ng_rollout_index": index,
            "reward": 1.0,
            "responses_create_params": {"input": "x"},
        }
        for index in range(2)
    ]

    (group,) = compute_aggregate_metrics(rows).group_level_metrics

    assert group["num_rollouts"] == group["expected_num_rollouts"] == 2
    assert group["missing_num_rollouts"] == 0
    assert group["reward_profile_completion_pct"] == 100.0
    assert group["sample"] == {"responses_create_params": {"input": "x"}}
