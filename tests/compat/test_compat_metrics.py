"""What authors do with the metrics that `compute_pass_majority_metrics` gives."""

from typing import Any

import pytest

from palestra.compat.nemo_gym.reward_profile import PassMetrics, compute_pass_majority_metrics

TASKS = [[{"reward": 1.0}, {"reward": 0.0}]]


@pytest.fixture
def metrics() -> PassMetrics:
    return compute_pass_majority_metrics(TASKS)


def test_they_are_read_by_name(metrics: PassMetrics) -> None:
    names = list(metrics.keys())

    assert "pass@1/reward" in names
    assert all(name in metrics for name in names)
    assert metrics.get("pass@1/reward") == metrics["pass@1/reward"] == 50.0
    assert metrics.get("unheard_of") is None


def test_taken_apart_they_are_four_parts(metrics: PassMetrics) -> None:
    found, scores, names, most = metrics
    first, *rest = metrics

    assert found == first == dict(metrics.items())
    assert (
        (scores, names, most)
        == tuple(rest)
        == ([[{"reward": 1.0}, {"reward": 0.0}]], ["reward"], 2)
    )
    assert metrics[0] == found


def test_they_can_be_spread_into_other_metrics(metrics: PassMetrics) -> None:
    spread: dict[str, Any] = {**metrics, "own": 1}

    assert spread["pass@1/reward"] == metrics["pass@1/reward"] == 50.0
    assert dict(metrics) == dict(metrics.items())
