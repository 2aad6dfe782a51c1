"""Joins the rows of inputs, results and failures to one row per rollout, in key order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from palestra.metrics import BoolArray, IntArray, TaskIndex, distinct, task_order
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.layout import NO_TASK

Views = Mapping[str, npt.NDArray[Any]]
"""The columns of an index, by name, such as `results.task`."""
RowNumbers = npt.NDArray[np.int32]
TABLES = ("inputs", "results", "failures")
_SPARSE = 4
"""With fewer keys than one in so many possible ones, keys are sorted to number them."""


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
    task: RowNumbers
    """Per rollout, the position of its task in `tasks`; -1 without indices."""
    rollout: npt.NDArray[np.signedinteger[Any]]
    input: RowNumbers
    result: RowNumbers
    failure: RowNumbers
    """The last failed attempt."""
    is_duplicate: BoolArray
    """Whether several inputs, or several results, have the key. The first row counts."""
    failure_rows: RowNumbers
    """The rows of `failures`, grouped by rollout, in file order."""
    failure_of: RowNumbers
    """The rollout of each of `failure_rows`, ascending."""

    def __len__(self) -> int:
        return len(self.task)

    @property
    def keyed(self) -> int:
        """The number of rollouts with indices."""
        return int(np.searchsorted(self.task < 0, True))

    def attempts(self, row: int) -> RowNumbers:
        """Return the rows of `failures` of one rollout, in file order."""
        low, high = np.searchsorted(self.failure_of, [row, row + 1])
        return self.failure_rows[low:high]


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
    rows = [np.flatnonzero(key >= 0).astype(np.int32) for key in keys]
    keys = [key if len(row) == len(key) else key[row] for key, row in zip(keys, rows, strict=True)]
    every, at = _numbered(keys, beyond + len(unkeyed))
    del keys  # the arrays of a large run take much memory: none is kept longer than needed
    inputs, results, failures = rows
    count = len(every)
    attempt = views["failures.attempt"][failures]
    by_attempt = np.lexsort((*_place_keys(views, "failures", failures), attempt))
    grouped = np.lexsort((*_place_keys(views, "failures", failures), at[2]))
    has_key = every < beyond
    return Join(
        tasks=ranked.names,
        ranks=ranked,
        task=np.where(has_key, every // width, -1).astype(np.int32),
        rollout=_narrow(np.where(has_key, rollouts.values(every % width), 0)),
        input=_first(count, at[0], inputs, _place_keys(views, "inputs", inputs)),
        result=_first(count, at[1], results, _place_keys(views, "results", results)),
        failure=_last(count, at[2][by_attempt], failures[by_attempt]),
        is_duplicate=_repeated(count, at[0]) | _repeated(count, at[1]),
        failure_rows=failures[grouped],
        failure_of=at[2][grouped],
    )


def _numbered(keys: Sequence[IntArray], limit: int) -> tuple[IntArray, list[RowNumbers]]:
    """Return all keys once, ascending, and for each table the positions of its keys among them.
    `limit`: every key is below it.
    """
    if limit <= _SPARSE * sum(map(len, keys)):  # most keys that can be are there: nothing to sort
        is_present = np.zeros(limit, np.bool_)
        for key in keys:
            is_present[key] = True
        positions = np.cumsum(is_present, dtype=np.int32) - np.int32(1)
        return np.flatnonzero(is_present), [positions[key] for key in keys]
    every = distinct(np.concatenate(keys))
    return every, [np.searchsorted(every, key).astype(np.int32) for key in keys]


def _place_keys(views: Views, name: str, rows: RowNumbers) -> tuple[npt.NDArray[Any], ...]:
    """Return what rows are sorted by to be in file order: nothing where they are already, because
    one file is read in order.
    """
    file = views[f"{name}.file"][rows]
    if not len(rows) or file.min() == file.max():
        return ()
    return views[f"{name}.offset"][rows], file


def _first(
    count: int, at: RowNumbers, rows: RowNumbers, place_keys: tuple[npt.NDArray[Any], ...]
) -> RowNumbers:
    """Return for each of `count` rollouts its first row in file order; -1 without one."""
    if place_keys:
        in_order = np.lexsort(place_keys)
        at, rows = at[in_order], rows[in_order]
    return _last(count, at[::-1], rows[::-1])


def _last(count: int, at: RowNumbers, rows: RowNumbers) -> RowNumbers:
    pointers = np.full(count, -1, np.int32)
    pointers[at] = rows
    return pointers


def _narrow(values: IntArray) -> npt.NDArray[np.signedinteger[Any]]:
    """Return integers in half the memory, where they fit."""
    fits = not len(values) or max(abs(int(values.min())), int(values.max())) < 2**31
    return values.astype(np.int32) if fits else values


def _repeated(count: int, at: RowNumbers) -> BoolArray:
    """Return for each of `count` rollouts whether `at` has it more than once."""
    is_repeated = np.zeros(count, np.bool_)
    ordered = at if bool((at[1:] >= at[:-1]).all()) else np.sort(at)
    is_repeated[ordered[1:][ordered[1:] == ordered[:-1]]] = True
    return is_repeated


@dataclass(frozen=True, slots=True)
class TaskRanks:
    """The stored tasks, sorted, and the rank of each. Equal names may be stored more than once."""

    stored: IntArray
    rank: IntArray
    names: TaskNames

    @classmethod
    def of(cls, columns: Sequence[IntArray], texts: Heap) -> "TaskRanks":
        stored = distinct(np.concatenate([distinct(column) for column in columns]))
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
        if self.stored[0] == 0 and self.stored[-1] == len(self.stored) - 1:  # 0, 1, 2, ...
            return np.where(column == NO_TASK, -(2**40), column)
        at = np.minimum(np.searchsorted(self.stored, column), len(self.stored) - 1)
        return np.where(column == NO_TASK, -(2**40), self.rank[at])


@dataclass(frozen=True, slots=True)
class RolloutRanks:
    """Rollout indices as small numbers. `indices`: those that occur; None when they are small
    already.
    """

    width: int
    indices: IntArray | None

    @classmethod
    def of(cls, columns: Sequence[IntArray]) -> "RolloutRanks":
        present = [column for column in columns if len(column)]
        if not present:
            return cls(1, None)
        low = min(int(column.min()) for column in present)
        high = max(int(column.max()) for column in present)
        if low >= 0 and high < 2**20:
            return cls(high + 1, None)
        indices = distinct(np.concatenate(present))
        return cls(len(indices), indices)

    def ranks(self, column: IntArray) -> IntArray:
        return column if self.indices is None else np.searchsorted(self.indices, column)

    def values(self, ranks: IntArray) -> IntArray:
        return ranks if self.indices is None else self.indices[ranks]
