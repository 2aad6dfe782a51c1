"""What a scan keeps of each file until the three are joined."""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from palestra.analysis.frame import AgentName, Endings, RowPositions
from palestra.metrics import Columns, IntArray, Keys, TaskIndex
from palestra.schema import Remedy, remedy_of

K = TypeVar("K")


class Codes(Generic[K]):
    """Numbers values in order of appearance."""

    def __init__(self) -> None:
        self.names: list[K] = []
        self._codes: dict[K, int] = {}

    def codes(self, names: Collection[K]) -> "array[int]":
        """The number of each value; values not seen before get new ones."""
        for name in dict.fromkeys(names):
            if name not in self._codes:
                self._codes[name] = len(self.names)
                self.names.append(name)
        return array("q", map(self._codes.__getitem__, names))

    def find(self, name: K) -> int | None:
        """The number of a value, if it has one."""
        return self._codes.get(name)


def _integers() -> "array[int]":
    return array("q")


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Key, place, agent and family of each row of some files; columns grow as they are read."""

    files: list[Path] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The number of rows before each file."""
    task: "array[int]" = field(default_factory=_integers)
    rollout: "array[int]" = field(default_factory=_integers)
    lines: list[Sequence[int]] = field(default_factory=list)
    """Of each block of rows, the numbers of their lines."""
    blocks: list[int] = field(default_factory=list)
    """The number of rows before each block."""
    offset: "array[int]" = field(default_factory=_integers)
    agent: "array[int]" = field(default_factory=_integers)
    family: "array[int]" = field(default_factory=_integers)

    def __len__(self) -> int:
        return len(self.task)

    def __str__(self) -> str:
        """The files' names."""
        further_files = len(self.files) - 1
        return str(self.files[0]) + (f" and {further_files} more files" if further_files else "")

    def begin(self, path: Path) -> None:
        """The rows that follow are of this file."""
        self.files.append(path)
        self.first.append(len(self))

    def keys(self, rank: IntArray) -> Keys:
        """The rows' keys, tasks renumbered by `rank`."""
        return Keys(rank[integers(self.task)], integers(self.rollout))

    def places(self, rows: IntArray) -> RowPositions:
        """Where rows are."""
        return RowPositions(self.files, self._file_of(rows), integers(self.offset)[rows])

    def lines_of(self, rows: Sequence[int]) -> str:
        """`lines 2 and 7`, or, when there are several files, `a.jsonl:2 and b.jsonl:7`."""
        if len(self.files) == 1:
            return "lines " + " and ".join(str(self._line_of(row)) for row in rows)
        files = self._file_of(np.array(rows)).tolist()
        file_rows = zip(files, rows, strict=True)
        return " and ".join(f"{self.files[file]}:{self._line_of(row)}" for file, row in file_rows)

    def _line_of(self, row: int) -> int:
        block = bisect_right(self.blocks, row) - 1
        return self.lines[block][row - self.blocks[block]]

    def _file_of(self, rows: IntArray) -> IntArray:
        return np.searchsorted(self.first, rows, side="right") - 1


@dataclass(frozen=True, slots=True, order=True)
class FailedAttempt:
    """One failed attempt. The name breaks ties, so that the order of rows never decides."""

    attempt: int
    failure_class: str
    terminal: bool = field(default=False, compare=False)
    retriable: bool = field(default=False, compare=False)
    answered: bool = field(default=False, compare=False)
    """An answer of the model is kept, of this attempt or of another one of the rollout."""
    reverify: str = field(default="", compare=False)
    """The command that verifies it."""

    @property
    def remedy(self) -> Remedy:
        """What helps, when the rollout has no score."""
        return remedy_of(
            terminal=self.terminal, retriable=self.retriable, was_answered=self.answered
        )

    def together(self, second: "FailedAttempt") -> "FailedAttempt":
        """The later of two attempts of one rollout, with the answer that either has kept."""
        later = max(self, second)
        answered_attempt = next((attempt for attempt in (self, second) if attempt.answered), later)
        return replace(
            later, answered=answered_attempt.answered, reverify=answered_attempt.reverify
        )


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """The files of one run, read but not yet joined; codes are shared by all of them."""

    tasks: Codes[TaskIndex]
    agents: Codes[AgentName]
    families: Codes[str] | None
    inputs: KeyTable
    rollouts: KeyTable
    columns: Columns
    endings: Endings
    failures: Mapping[tuple[TaskIndex, int], FailedAttempt]
    """The last attempt at each key that has a failed one."""
    notices: tuple[str, ...]


def integers(column: "array[int]") -> IntArray:
    return np.array(column, dtype=np.int64)
