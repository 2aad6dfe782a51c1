"""Compute aggregate metrics with the hooks that authors override."""

from collections.abc import Callable, Sequence
from typing import Any

from palestra.compat.nemo_gym.config_types import AggregateMetrics
from palestra.metrics import aggregate_metrics
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonDict


def aggregated(
    verify_responses: Sequence[JsonDict],
    compute_metrics: Callable[[list[list[JsonDict]]], Any],
    get_key_metrics: Callable[[JsonDict], Any],
) -> AggregateMetrics:
    """Return statistics over all rollouts, and the results of the two hooks.

    A row without a task index and a rollout index counts as its own task.
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
    return AggregateMetrics.model_validate(aggregates)


def _plain(metrics: Any) -> JsonDict:
    # What authors return may iterate as the parts that it was taken apart into.
    return {name: metrics[name] for name in metrics.keys()} if metrics else {}  # noqa: SIM118


def _identified(row: JsonDict, index: int) -> JsonDict:
    return {TASK_INDEX: index, ROLLOUT_INDEX: 0, **row}
