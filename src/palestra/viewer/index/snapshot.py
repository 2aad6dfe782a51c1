"""What an index knows at one moment."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palestra.analysis import RunFrame
from palestra.metrics import IntArray, TaskIndex
from palestra.viewer.index.commits import Commit
from palestra.viewer.index.fields import prompt_rows, rollout_columns, task_columns
from palestra.viewer.index.framing import frame_of
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.joined import Join, join
from palestra.viewer.index.layout import COLUMN_TYPES
from palestra.viewer.index.packed import PackedFrames
from palestra.viewer.index.places import IndexedPlace, LineProblem, RunPart
from palestra.viewer.index.sources import IndexedFile
from palestra.viewer.index.storage import StoredColumns
from palestra.viewer.index.tables import RowTable

_NO_COPIES: Final = np.empty(0, np.uint8)
_TABLES: Final = {RunPart.INPUT: "inputs", RunPart.RESULT: "results", RunPart.FAILURE: "failures"}
WORDS: Final = ("prompt", "last_answer", "tools", "error_message")
"""The fields of a rollout in which a word of a query is looked for."""


class IndexSnapshot:
    """A run as far as it is indexed. It does not change, and is safe to use from several threads.

    `rollouts` has the fields `task rollout outcome reward agent family class layer cause attempts
    turns tools tools.count tokens.in tokens.out truncated empty duplicate line last_answer prompt
    error_message` and every number, boolean or short text at the top level of a row. `outcome` is
    `scored`, a failure class, `not ended`, or `no reward` for a result without one. Rows without
    indices have no task; their `line` says where they are.

    `tasks` has `task n scored solved pass_rate mean std learnability family prompt`. `solved` is
    `never`, `sometimes` or `always`.
    """

    def __init__(self, columns: StoredColumns, commit: Commit) -> None:
        self.version: int = commit.version
        """Grows with every change of the files."""
        self._commit = commit
        views = _views(columns, commit)
        self._views = views
        texts = _heap(views, "texts")
        self._join = joined = join(views, texts)
        self._texts = texts
        rollouts = rollout_columns(joined, views, commit.fields, texts)
        self.rollouts = RowTable(len(joined), rollouts, words=WORDS)
        tasks = task_columns(joined, self.rollouts, rollouts, views)
        self.tasks = RowTable(len(joined.tasks), tasks, words=("prompt",))
        self._sources = {source.number: source for source in commit.sources}
        self.problems: Sequence[LineProblem] = [
            LineProblem(Path(self._sources[bad.file].path), bad.line, bad.reason)
            for bad in commit.problems
        ]
        """Lines that are not rows, at most 1,000."""
        self.problem_count: int = commit.problem_count
        self.notices: Sequence[str] = _notices(joined, commit)
        """What the tables leave out or mark, one sentence each."""

    @property
    def files(self) -> Sequence[IndexedFile]:
        """The files of the run, and how far each is indexed."""
        return list(self._sources.values())

    def find(self, task: TaskIndex, rollout: int) -> int | None:
        """Return the row number of a rollout; None when there is no such rollout."""
        rank = self._join.tasks.rank(task)
        if rank is None:
            return None
        rows = self.rollouts_of(rank)
        at = int(np.searchsorted(self._join.rollout[rows], rollout))
        is_there = at < len(rows) and int(self._join.rollout[rows[at]]) == rollout
        return int(rows[at]) if is_there else None

    def find_task(self, task: TaskIndex) -> int | None:
        """Return the row number of a task in `tasks`."""
        return self._join.tasks.rank(task)

    def key(self, row: int) -> tuple[TaskIndex, int] | None:
        """Return the task and rollout index of a row; None for a row without indices."""
        rank = int(self._join.task[row])
        return None if rank < 0 else (self._join.tasks.task(rank), int(self._join.rollout[row]))

    def fingerprint(self, task_row: int) -> str:
        """Return the digest of a task's content, in hexadecimal; empty when it is unknown."""
        row = int(prompt_rows(self._join, self._views)[task_row])
        prints = self._views["prompts.fingerprint"]
        return prints[16 * row : 16 * row + 16].tobytes().hex() if row >= 0 else ""

    def rollouts_of(self, task_row: int) -> IntArray:
        """Return the row numbers of a task's rollouts, in order."""
        keyed = self._join.task[: self._join.keyed]
        low, high = np.searchsorted(keyed, [task_row, task_row + 1])
        return np.arange(low, high)

    def place(self, row: int, part: RunPart) -> IndexedPlace | None:
        """Return where a row of a rollout is; None when it has none of that kind."""
        pointers = {
            RunPart.INPUT: self._join.input,
            RunPart.RESULT: self._join.result,
            RunPart.FAILURE: self._join.failure,
        }
        pointer = int(pointers[part][row])
        return None if pointer < 0 else self._row_place(part, pointer)

    def attempts(self, row: int) -> Sequence[IndexedPlace]:
        """Return the places of the failed attempts of a rollout, in file order."""
        rows = self._join.attempts(row).tolist()
        return [self._row_place(RunPart.FAILURE, pointer) for pointer in rows]

    def by_place(self, rows: IntArray) -> Iterator[tuple[RunPart, IntArray, IntArray, IntArray]]:
        """Yield rollouts in the order of their rows in the files, with offsets and lengths: for each
        file, those with a result, then those with failures only, then those with neither.
        """
        remaining = rows
        for part, pointers in (
            (RunPart.RESULT, self._join.result),
            (RunPart.FAILURE, self._join.failure),
            (RunPart.INPUT, self._join.input),
        ):
            at = pointers[remaining]
            present, remaining = remaining[at >= 0], remaining[at < 0]
            file, offset, length = (
                self._views[f"{_TABLES[part]}.{name}"][at[at >= 0]]
                for name in ("file", "offset", "length")
            )
            for number in np.unique(file).tolist():
                in_file = np.flatnonzero(file == number)
                order = in_file[np.argsort(offset[in_file], kind="stable")]
                yield part, present[order], offset[order], length[order].astype(np.int64)

    def frame(self) -> RunFrame:
        """Return the run for the functions of `analysis`, as `load_run(…, allow_partial=True)` does.

        Raises InputDataError, as `load_run`: keys occur twice, rollouts have no inputs, or a row has
        no reward.
        """
        return frame_of(self._views, self._commit, self._texts, self._join)

    def _row_place(self, part: RunPart, pointer: int) -> IndexedPlace:
        table = _TABLES[part]
        values = (int(self._views[f"{table}.{n}"][pointer]) for n in ("file", "offset", "length"))
        file, offset, length = values
        source = self._sources[file]
        line = int(self._views[f"{table}.line"][pointer])
        path = Path(source.path)
        frames = self._frames.get(file)
        return IndexedPlace(path, offset, length, line, source.packed, frames, source.is_outcomes)

    @cached_property
    def _frames(self) -> dict[int, PackedFrames]:
        return {
            number: PackedFrames(
                Path(source.path),
                self._views.get(f"copy{number}.copies", _NO_COPIES),
                *(self._views[f"copy{number}.{name}"] for name in ("starts", "offsets", "sizes")),
            )
            for number, source in self._sources.items()
            if source.has_copy and f"copy{number}.starts" in self._views
        }


def _views(columns: StoredColumns, commit: Commit) -> dict[str, npt.NDArray[Any]]:
    views = {
        name: columns.view(name, _type_of(name), state.size)
        for name, state in commit.columns.items()
    }
    return {name: np.empty(0, dtype) for name, dtype in COLUMN_TYPES.items()} | views


def _type_of(name: str) -> npt.DTypeLike:
    if name in COLUMN_TYPES:
        return COLUMN_TYPES[name]
    if name.startswith("results.number"):
        return np.float64
    if name.startswith("results.text"):
        return np.int32
    return np.uint8 if name.endswith((".heap", ".copies")) else np.int64


def _heap(views: dict[str, npt.NDArray[Any]], name: str) -> Heap:
    return Heap(views[f"{name}.heap"], views[f"{name}.ends"])


def _notices(joined: Join, commit: Commit) -> Sequence[str]:
    notices = []
    duplicates = int(joined.is_duplicate.sum())
    if duplicates:
        notices.append(f"{duplicates} keys occur more than once; the first row of each is shown")
    has_inputs = any(source.part is RunPart.INPUT for source in commit.sources)
    orphans = int(((joined.input < 0) & (joined.task >= 0)).sum())
    if has_inputs and orphans:
        notices.append(f"{orphans} rollouts have no materialized input")
    if not has_inputs and len(joined):
        notices.append("the run has no materialized inputs: which rollouts are missing is unknown")
    unkeyed = len(joined) - joined.keyed
    if unkeyed:
        notices.append(
            f"{unkeyed} rows have no task and rollout index; they are named by their line"
        )
    if commit.fields.left_out:
        notices.append("the rows have more fields than the index takes; the others are in the rows")
    return notices
