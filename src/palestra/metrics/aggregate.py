"""Computes the response to `POST /aggregate_metrics`: statistics of the rollouts in the request."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from palestra.errors import FieldProblem, RejectedRows
from palestra.metrics.columns import (
    REWARD,
    ColumnBuilder,
    Keys,
    duplicates,
    fields_of,
    finite,
    is_finite_number,
)
from palestra.metrics.grouped import Rollouts, TaskIndex, rollout_infos, statistics_rows, task_order
from palestra.metrics.pass_metrics import Task
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonDict, JsonObject

ComputeMetrics = Callable[[Sequence[Task]], JsonObject]
GetKeyMetrics = Callable[[JsonObject], JsonObject]

PER_TASK = "per_task_metrics"
_NAMED_AT_MOST = 20
"""The largest number of problems listed in one error."""
CHUNK_ROWS = 1024
"""The number of rows read into columns at once; they should fit in the processor's cache."""


def aggregate_metrics(
    verify_responses: Sequence[JsonObject],
    *,
    compute_metrics: ComputeMetrics | None = None,
    get_key_metrics: GetKeyMetrics | None = None,
) -> JsonDict:
    """Return statistics per task and over all rollouts, and the key metrics.

    `group_level_metrics`: the statistics and rollouts of each task, in task order. `agent_metrics`:
    the statistics of all rollouts, and the result of `compute_metrics` for the rollouts grouped by
    task; its `per_task_metrics`, one mapping per task, are added to the groups. `key_metrics`: the
    result of `get_key_metrics` for these metrics; by default every `mean/*`.

    Raises RejectedRows: a row lacks a key or a finite reward, or a key occurs twice. Its problems
    name row and field, as pointers into the request body.
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
    metrics: JsonDict = next(statistics_rows(rollouts.columns, everything))
    if compute_metrics is not None:
        metrics.update(compute_metrics(_by_task(rows, rollouts)))
        for group, extra in zip(groups, metrics.pop(PER_TASK, ()), strict=False):
            group.update(extra)
    return {
        "group_level_metrics": groups,
        "agent_metrics": metrics,
        "key_metrics": dict((get_key_metrics or default_key_metrics)(metrics)),
    }


def default_key_metrics(metrics: JsonObject) -> JsonDict:
    """Return the metrics whose names start with `mean/`."""
    return {name: value for name, value in metrics.items() if name.startswith("mean/")}


def _grouped(responses: Sequence[JsonObject]) -> tuple[list[JsonObject], Rollouts]:
    """Return the rows in key order, and their numeric columns."""
    keys = _keys(responses)
    tasks = sorted({task for task, _ in keys}, key=task_order)
    rank = {task: rank_of_task for rank_of_task, task in enumerate(tasks)}
    coded = Keys(
        np.array([rank[task] for task, _ in keys]), np.array([rollout for _, rollout in keys])
    )
    repeated = duplicates(coded)
    if repeated:
        task, rollout = keys[repeated[0][0]]
        first, *repeats = (f"/verify_responses/{position}" for position in repeated[0])
        raise RejectedRows(
            f"task {task}, rollout {rollout} occurs twice: {first} and {', '.join(repeats)}",
            problems=tuple(
                FieldProblem(pointer, f"another key than {first}") for pointer in repeats
            ),
        )
    order = coded.order()
    rows = [responses[position] for position in order.tolist()]
    builder = ColumnBuilder()
    for start in range(0, len(rows), CHUNK_ROWS):
        chunk = rows[start : start + CHUNK_ROWS]
        builder.add(fields_of(chunk), len(chunk))
    return rows, Rollouts.of_sorted(tasks, coded.take(order), builder.build())


def _by_task(rows: Sequence[JsonObject], rollouts: Rollouts) -> list[Task]:
    return [rows[start:end] for start, end in pairwise(rollouts.starts.tolist())]


def _keys(rows: Sequence[JsonObject]) -> list[tuple[TaskIndex, int]]:
    """Return the key of each row. Raises RejectedRows: a row lacks a key or a finite reward."""
    keys: list[tuple[Any, Any]] = [(row.get(TASK_INDEX), row.get(ROLLOUT_INDEX)) for row in rows]
    keyed = all(_is_task(task) and _is_rollout(rollout) for task, rollout in keys)
    if not keyed or finite([row.get(REWARD) for row in rows]) is None:
        raise _rejected(rows)
    return keys


def _is_task(value: object) -> bool:
    return type(value) is str or _is_rollout(value)


def _is_rollout(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


_NEEDED: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    (TASK_INDEX, _is_task, "the task's index, an integer or a text"),
    (ROLLOUT_INDEX, _is_rollout, "the rollout's index, an integer"),
    (REWARD, is_finite_number, "a finite number"),
)
"""The fields required in every row: name, check, and description for messages."""


def _rejected(rows: Sequence[JsonObject]) -> RejectedRows:
    problems = [
        FieldProblem(f"/verify_responses/{position}/{name}", f"{expected}, {_actual(row, name)}")
        for position, row in enumerate(rows)
        for name, accepts, expected in _NEEDED
        if not accepts(row.get(name))
    ]
    named_problems = problems[:_NAMED_AT_MOST]
    hidden_count = len(problems) - len(named_problems)
    return RejectedRows(
        "; ".join(f"{problem.pointer} must be {problem.expected}" for problem in named_problems)
        + (f"; and {hidden_count} more" if hidden_count else ""),
        hint="send the rows as `palestra collect` wrote them",
        problems=tuple(named_problems),
    )


def _actual(row: JsonObject, name: str) -> str:
    return f"not {row[name]!r:.100}" if name in row else "and is missing"
