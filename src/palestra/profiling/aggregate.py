"""What a server answers to `POST /aggregate_metrics`: statistics of the rollouts it is sent."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from palestra.errors import InputDataError
from palestra.profiling.columns import (
    REWARD,
    ROLLOUT_INDEX,
    TASK_INDEX,
    ColumnBuilder,
    fields_of,
    finite,
    is_finite_number,
)
from palestra.profiling.frame import Rollouts, TaskIndex, task_order
from palestra.profiling.join import Keys, duplicates
from palestra.profiling.pass_metrics import Task, VerifyResponse
from palestra.profiling.task_rows import rollout_infos, statistics_rows

ComputeMetrics = Callable[[Sequence[Task]], Mapping[str, Any]]
GetKeyMetrics = Callable[[Mapping[str, Any]], Mapping[str, Any]]

PER_TASK = "per_task_metrics"
CHUNK_ROWS = 1024
"""Rows whose columns are gathered at once, as many as stay in the processor's cache."""


def aggregate_metrics(
    verify_responses: Sequence[VerifyResponse],
    *,
    compute_metrics: ComputeMetrics | None = None,
    get_key_metrics: GetKeyMetrics | None = None,
) -> dict[str, Any]:
    """Statistics by task and over all, and the few that matter.

    `group_level_metrics`: per task, in task order, its statistics and rollouts.
    `agent_metrics`: the statistics of all rollouts, and what `compute_metrics` returns for the
    rollouts grouped by task; its `per_task_metrics`, one mapping per task, go to the groups.
    `key_metrics`: what `get_key_metrics` picks from these; by default every `mean/*`.
    Raises InputDataError for a row without a key or a finite reward, and for a repeated key.
    """
    if not verify_responses:
        return {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}
    rows, rollouts = _grouped(verify_responses)
    groups = [
        {TASK_INDEX: task, "num_rollouts": len(infos), **statistics, "rollout_infos": infos}
        for task, statistics, infos in zip(
            rollouts.tasks,
            statistics_rows(rollouts.columns, rollouts.starts),
            rollout_infos(rollouts),
            strict=True,
        )
    ]
    everything = np.array([0, len(rollouts)])
    metrics: dict[str, Any] = next(statistics_rows(rollouts.columns, everything))
    if compute_metrics is not None:
        metrics.update(compute_metrics(_by_task(rows, rollouts)))
        for group, extra in zip(groups, metrics.pop(PER_TASK, ()), strict=False):
            group.update(extra)
    return {
        "group_level_metrics": groups,
        "agent_metrics": metrics,
        "key_metrics": dict((get_key_metrics or default_key_metrics)(metrics)),
    }


def default_key_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Every mean."""
    return {name: value for name, value in metrics.items() if name.startswith("mean/")}


def _grouped(responses: Sequence[VerifyResponse]) -> tuple[list[VerifyResponse], Rollouts]:
    """The rows in key order, and their columns."""
    keys = _keys(responses)
    tasks = sorted({task for task, _ in keys}, key=task_order)
    rank = {task: place for place, task in enumerate(tasks)}
    coded = Keys(
        np.array([rank[task] for task, _ in keys]), np.array([rollout for _, rollout in keys])
    )
    repeated = duplicates(coded)
    if repeated:
        task, rollout = keys[repeated[0][0]]
        raise InputDataError(f"task {task}, rollout {rollout} occurs twice")
    order = coded.order()
    rows = [responses[place] for place in order.tolist()]
    builder = ColumnBuilder()
    for start in range(0, len(rows), CHUNK_ROWS):
        chunk = rows[start : start + CHUNK_ROWS]
        builder.add(fields_of(chunk), len(chunk))
    return rows, Rollouts.of_sorted(tasks, coded.take(order), builder.build())


def _by_task(rows: Sequence[VerifyResponse], rollouts: Rollouts) -> list[Task]:
    return [rows[start:end] for start, end in pairwise(rollouts.starts.tolist())]


def _keys(rows: Sequence[VerifyResponse]) -> list[tuple[TaskIndex, int]]:
    """The key of each row, which must have one and a finite reward."""
    keys: list[tuple[Any, Any]] = [(row.get(TASK_INDEX), row.get(ROLLOUT_INDEX)) for row in rows]
    for place, (task, rollout) in enumerate(keys):
        if not isinstance(task, int | str) or not isinstance(rollout, int):
            raise InputDataError(
                f"verify response {place} lacks {TASK_INDEX} or {ROLLOUT_INDEX}",
                hint="send the rows as the collection wrote them",
            )
    rewards = [row.get(REWARD) for row in rows]
    if finite(rewards) is None:
        place = next(at for at, reward in enumerate(rewards) if not is_finite_number(reward))
        task, rollout = keys[place]
        raise InputDataError(
            f"verify response {place} (task {task}, rollout {rollout}): the reward is "
            f"{rewards[place]!r}, not a finite number"
        )
    return keys
