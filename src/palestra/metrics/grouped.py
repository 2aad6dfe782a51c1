"""Scored rollouts in numpy columns, grouped by task, and the statistics of each group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan
from typing import Any

import numpy as np

from palestra.metrics.columns import REWARD, BoolArray, Columns, FloatArray, IntArray, Keys
from palestra.metrics.statistics import STATISTICS, describe, group_of_rows, starts_of_sorted
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonDict

TaskIndex = int | str

ROLLOUT_ID = "rollout_id"


def task_order(task: TaskIndex) -> tuple[bool, TaskIndex]:
    """Return the sorting key of a task: numbers first, by value, then names."""
    return isinstance(task, str), task


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Scored rollouts, grouped by task. `starts`: as defined in `palestra.metrics.statistics`."""

    tasks: Sequence[TaskIndex]
    starts: IntArray
    rollout_index: IntArray
    columns: Columns

    @classmethod
    def of_sorted(cls, tasks: Sequence[TaskIndex], keys: Keys, columns: Columns) -> "Rollouts":
        """Group rows that are sorted by key. `keys.task`: positions in `tasks`."""
        starts = starts_of_sorted(keys.task)
        group_tasks = [tasks[rank] for rank in keys.task[starts[:-1]].tolist()]
        return cls(group_tasks, starts, keys.rollout, columns)

    def __len__(self) -> int:
        return len(self.rollout_index)

    @property
    def reward(self) -> FloatArray:
        return self.columns.values[REWARD]

    @property
    def per_task(self) -> IntArray:
        """The number of rollouts of each task."""
        return np.diff(self.starts)

    def select(self, rows: BoolArray) -> "Rollouts":
        """Return the selected rollouts, at least one; tasks without any are removed."""
        if rows.all():
            return self
        keys = Keys(group_of_rows(self.starts)[rows], self.rollout_index[rows])
        return Rollouts.of_sorted(self.tasks, keys, self.columns.take(rows))


def statistics_rows(columns: Columns, starts: IntArray) -> Iterator[dict[str, float]]:
    """Yield, per group, `mean/f`, `max/f`, `min/f`, `median/f` and `std/f` of every field f that
    the group has.
    """
    names: list[str] = []
    values: list[FloatArray] = []
    for field, column in columns.values.items():
        description = describe(column, starts)
        for statistic in STATISTICS:
            names.append(f"{statistic}/{field}")
            values.append(getattr(description, statistic))
    # NaN marks a field that the group lacks
    sparse = any(np.isnan(of).any() for of in values)
    for row in zip(*(of.tolist() for of in values), strict=True):
        pairs = zip(names, row, strict=True)
        yield dict(pair for pair in pairs if not isnan(pair[1])) if sparse else dict(pairs)


def rollout_infos(rollouts: Rollouts) -> Iterator[list[JsonDict]]:
    """Yield, per task, its rollouts in index order, each with all its numbers."""
    names, columns = info_columns(rollouts)
    rows = zip(*columns, strict=True)
    for count in rollouts.per_task.tolist():
        infos = (zip(names, row, strict=True) for row in islice(rows, count))
        yield [{name: value for name, value in info if value is not None} for info in infos]


def info_columns(rollouts: Rollouts) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the names and columns of the numbers of each rollout; None where a rollout lacks a
    number.
    """
    columns = rollouts.columns
    tasks = [rollouts.tasks[group] for group in group_of_rows(rollouts.starts).tolist()]
    indices: list[int] = rollouts.rollout_index.tolist()
    ids = [f"{task}:{index}" for task, index in zip(tasks, indices, strict=True)]
    fields = [field for field in columns.values if field != ROLLOUT_ID]
    names = [ROLLOUT_ID, TASK_INDEX, ROLLOUT_INDEX, *fields]
    return names, [ids, tasks, indices, *(_plain(columns, field) for field in fields)]


def _plain(columns: Columns, field: str) -> Sequence[float | int | None]:
    """Return a column as Python numbers: integers if all values are whole; None for absent values."""
    column = columns.values[field]
    if not np.isnan(column).any():
        plain: list[float | int | None] = (
            column.astype(np.int64) if field in columns.whole else column
        ).tolist()
        return plain
    present = or_null(column)
    if field not in columns.whole:
        return present
    return [None if value is None else int(value) for value in present]


def or_null(column: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in column.tolist()]
