"""Joins the rows of inputs, results and failures to one row per rollout, in key order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from palestra.metrics import BoolArray, IntArray, TaskIndex, task_order
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.layout import NO_TASK

Views = Mapping[str, npt.NDArray[Any]]
"""The columns of an index, by name, such as `results.task`."""
TABLES = ("inputs", "results", "failures")


@dataclass(frozen=True, slots=True)
class TaskNames:
    """The tasks of a run in order: numbers by value, then names. `plain`: those that are stored as
    integers; `before`: the negative ones; `after`: very large ones and names.
    """

    before: Sequence[TaskIndex]
    plain: IntArray
    after: Sequence[TaskIndex]

    def __len__(self) -> int:
        return len(self.before) + len(self.plain) + len(self.after)

    def task(self, rank: int) -> TaskIndex:
        """Return the task at a position."""
        if rank < len(self.before):
            return self.before[rank]
        rank -= len(self.before)
        return (
            int(self.plain[rank]) if rank < len(self.plain) else self.after[rank - len(self.plain)]
        )

    def rank(self, task: TaskIndex) -> int | None:
        """Return the position of a task; None when there is no such task."""
        if isinstance(task, int) and 0 <= task < 2**62:
            at = int(np.searchsorted(self.plain, task))
            is_known = at < len(self.plain) and int(self.plain[at]) == task
            return len(self.before) + at if is_known else None
        for start, names in ((0, self.before), (len(self) - len(self.after), self.after)):
            if task in names:
                return start + names.index(task)
        return None

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return each task as a number; NaN for a name."""
        outer = [
            [np.nan if isinstance(task, str) else float(task) for task in tasks]
            for tasks in (self.before, self.after)
        ]
        return np.concatenate([outer[0], self.plain.astype(np.float64), outer[1]])


@dataclass(frozen=True, slots=True)
class Join:
    """One row per rollout. The pointers are row numbers in the tables; -1 where a rollout has no row.

    Rows without indices come last, one each; their `task` is -1.
    """

    tasks: TaskNames
    ranks: "TaskRanks"
    task: npt.NDArray[np.int32]
    """Per rollout, the position of its task in `tasks`; -1 without indices."""
    rollout: IntArray
    input: npt.NDArray[np.int32]
    result: npt.NDArray[np.int32]
    failure: npt.NDArray[np.int32]
    """The last failed attempt."""
    attempts: npt.NDArray[np.int32]
    """The number of failed attempts."""
    is_duplicate: BoolArray
    """Whether several inputs, or several results, have the key. The first row counts."""
    failure_rows: IntArray
    """The rows of `failures`, grouped by rollout, in file order."""
    failure_starts: IntArray
    """Per rollout, where its attempts begin in `failure_rows`; and the end."""

    def __len__(self) -> int:
        return len(self.task)

    @property
    def keyed(self) -> int:
        """The number of rollouts with indices."""
        return int(np.searchsorted(self.task < 0, True))


def join(views: Views, texts: Heap) -> Join:
    """Join the tables of an index."""
    columns = [(views[f"{name}.task"], views[f"{name}.rollout"]) for name in TABLES]
    ranked = TaskRanks.of([task for task, _ in columns], texts)
    rollouts = RolloutRanks.of([rollout for _, rollout in columns])
    width = max(rollouts.width, 1)
    unkeyed = np.flatnonzero(columns[1][0] == NO_TASK)
    keys = [ranked.ranks(task) * width + rollouts.ranks(rollout) for task, rollout in columns]
    beyond = len(ranked.names) * width
    keys[1][unkeyed] = beyond + np.arange(len(unkeyed))
    is_keyed = [keys[0] >= 0, np.ones(len(keys[1]), np.bool_), keys[2] >= 0]
    rows = [np.flatnonzero(mask) for mask in is_keyed]
    keys = [key[row] for key, row in zip(keys, rows, strict=True)]
    every = np.unique(np.concatenate(keys))
    at = [np.searchsorted(every, key) for key in keys]
    ordered = [_file_order(views, name, row) for name, row in zip(TABLES, rows, strict=True)]
    failures = rows[2]
    attempt = views["failures.attempt"][failures]
    by_attempt = np.lexsort((ordered[2], attempt))
    grouped = np.lexsort((ordered[2], at[2]))
    counts = np.bincount(at[2], minlength=len(every))
    has_key = every < beyond
    task = np.where(has_key, every // width, -1).astype(np.int32)
    return Join(
        tasks=ranked.names,
        ranks=ranked,
        task=task,
        rollout=np.where(has_key, rollouts.values(every % width), 0),
        input=_first(len(every), at[0], rows[0], ordered[0]),
        result=_first(len(every), at[1], rows[1], ordered[1]),
        failure=_last(len(every), at[2][by_attempt], failures[by_attempt]),
        attempts=counts.astype(np.int32),
        is_duplicate=(np.bincount(at[0], minlength=len(every)) > 1)
        | (np.bincount(at[1], minlength=len(every)) > 1),
        failure_rows=failures[grouped],
        failure_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def _file_order(views: Views, name: str, rows: IntArray) -> IntArray:
    """Return the position of each row among all rows, by file and offset."""
    file, offset = views[f"{name}.file"][rows], views[f"{name}.offset"][rows]
    if not len(rows) or file.min() == file.max():
        return np.arange(len(rows))  # one file is read in order
    order = np.empty(len(rows), np.int64)
    order[np.lexsort((offset, file))] = np.arange(len(rows))
    return order


def _first(count: int, at: IntArray, rows: IntArray, order: IntArray) -> npt.NDArray[np.int32]:
    by_order = np.argsort(order, kind="stable")[::-1] if _is_mixed(order) else slice(None, None, -1)
    return _last(count, at[by_order], rows[by_order])


def _is_mixed(order: IntArray) -> bool:
    return bool(len(order)) and not bool((np.diff(order) > 0).all())


def _last(count: int, at: IntArray, rows: IntArray) -> npt.NDArray[np.int32]:
    pointers = np.full(count, -1, np.int32)
    pointers[at] = rows
    return pointers


@dataclass(frozen=True, slots=True)
class TaskRanks:
    """The stored tasks, sorted, and the rank of each. Equal names may be stored more than once."""

    stored: IntArray
    rank: IntArray
    names: TaskNames

    @classmethod
    def of(cls, columns: Sequence[IntArray], texts: Heap) -> "TaskRanks":
        stored = np.unique(np.concatenate([np.unique(column) for column in columns]))
        stored = stored[stored != NO_TASK]
        special = stored[stored < NO_TASK]
        plain = stored[len(special) :]
        values = [json.loads(text) for text in texts.texts((-2 - special).tolist())]
        ordered = sorted(set(values), key=task_order)
        before = [value for value in ordered if isinstance(value, int) and value < 0]
        after = ordered[len(before) :]
        ranks = {value: rank for rank, value in enumerate(before)}
        ranks |= {value: len(before) + len(plain) + n for n, value in enumerate(after)}
        special_ranks = np.array([ranks[value] for value in values], np.int64)
        plain_ranks = len(before) + np.arange(len(plain))
        rank = np.concatenate([special_ranks, plain_ranks])
        return cls(stored, rank, TaskNames(before, plain, after))

    def ranks(self, column: IntArray) -> IntArray:
        """Return the rank of each task; a very negative number for NO_TASK."""
        if not len(self.stored):
            return np.full(len(column), -(2**40))
        at = np.minimum(np.searchsorted(self.stored, column), len(self.stored) - 1)
        return np.where(column == NO_TASK, -(2**40), self.rank[at])


@dataclass(frozen=True, slots=True)
class RolloutRanks:
    """Rollout indices as small numbers. `distinct`: None when they are small already."""

    width: int
    distinct: IntArray | None

    @classmethod
    def of(cls, columns: Sequence[IntArray]) -> "RolloutRanks":
        present = [column for column in columns if len(column)]
        if not present:
            return cls(1, None)
        low = min(int(column.min()) for column in present)
        high = max(int(column.max()) for column in present)
        if low >= 0 and high < 2**20:
            return cls(high + 1, None)
        distinct = np.unique(np.concatenate(present))
        return cls(len(distinct), distinct)

    def ranks(self, column: IntArray) -> IntArray:
        return column if self.distinct is None else np.searchsorted(self.distinct, column)

    def values(self, ranks: IntArray) -> IntArray:
        return ranks if self.distinct is None else self.distinct[ranks]
