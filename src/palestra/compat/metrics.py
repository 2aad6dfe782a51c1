"""Compute aggregate metrics with the hooks that authors override."""

from collections.abc import Callable, Sequence
from typing import Any

from palestra.compat.nemo_gym.config_types import AggregateMetrics
from palestra.metrics import aggregate_metrics
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonDict

_INPUT_FIELDS = ("responses_create_params", "agent_ref")
"""The fields of a verify response that are known to come from the task's input."""


def aggregated(
    verify_responses: Sequence[JsonDict],
    compute_metrics: Callable[[list[list[JsonDict]]], Any],
    get_key_metrics: Callable[[JsonDict], Any],
) -> AggregateMetrics:
    """Return statistics over all rollouts, and the results of the two hooks.

    A row without a task index and a rollout index counts as its own task. Each row of
    `group_level_metrics` also has `sample` (the input of the task) and the fields of a reward
    profile that compare the rollouts with the requested ones. Only the rollouts in the request are
    known, so none is missing.
    """
    rows = [
        row if TASK_INDEX in row and ROLLOUT_INDEX in row else _identified(row, index)
        for index, row in enumerate(verify_responses)
    ]

    def compute(tasks: Any) -> JsonDict:
        return _plain(compute_metrics([[dict(row) for row in task] for task in tasks]))

    def pick(metrics: Any) -> JsonDict:
        return _plain(get_key_metrics(dict(metrics)))

    aggregates = aggregate_metrics(rows, compute_metrics=compute, get_key_metrics=pick)
    samples = {row[TASK_INDEX]: _sample(row) for row in reversed(rows)}
    for group in aggregates["group_level_metrics"]:
        group.update(
            expected_num_rollouts=group["num_rollouts"],
            missing_num_rollouts=0,
            reward_profile_completion_pct=100.0,
            sample=samples[group[TASK_INDEX]],
        )
    return AggregateMetrics.model_validate(aggregates)


def _sample(row: JsonDict) -> JsonDict:
    return {name: row[name] for name in _INPUT_FIELDS if name in row}


def _plain(metrics: Any) -> JsonDict:
    # What authors return may iterate as the parts that it was taken apart into.
    return {name: metrics[name] for name in metrics.keys()} if metrics else {}  # noqa: SIM118


def _identified(row: JsonDict, index: int) -> JsonDict:
    return {TASK_INDEX: index, ROLLOUT_INDEX: 0, **row}
