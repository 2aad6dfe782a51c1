"""Holds the scanned data of a run's files until inputs, rollouts and failures are joined."""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from palestra.analysis.frame import AgentName, Endings, RowPositions
from palestra.analysis.manifests import MissingShards
from palestra.metrics import Columns, IntArray, Keys, TaskIndex
from palestra.schema import Remedy, ReverifyCommand, remedy_of

K = TypeVar("K")


class Codes(Generic[K]):
    """Numbers values in order of appearance."""

    def __init__(self) -> None:
        self.names: list[K] = []
        self._codes: dict[K, int] = {}

    def codes(self, names: Collection[K]) -> "array[int]":
        """Return the number of each value; new values get new numbers."""
        for name in dict.fromkeys(names):
            if name not in self._codes:
                self._codes[name] = len(self.names)
                self.names.append(name)
        return array("q", map(self._codes.__getitem__, names))

    def find(self, name: K) -> int | None:
        """Return the number of a value, or None if it has none."""
        return self._codes.get(name)


def _integers() -> "array[int]":
    return array("q")


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The key, position, agent and family of each row of some files. Columns grow while the files
    are read.
    """

    files: list[Path] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The number of rows before each file."""
    task: "array[int]" = field(default_factory=_integers)
    rollout: "array[int]" = field(default_factory=_integers)
    lines: list[Sequence[int]] = field(default_factory=list)
    """Per block, the line numbers of its rows."""
    blocks: list[int] = field(default_factory=list)
    """The number of rows before each block."""
    offset: "array[int]" = field(default_factory=_integers)
    agent: "array[int]" = field(default_factory=_integers)
    family: "array[int]" = field(default_factory=_integers)

    def __len__(self) -> int:
        return len(self.task)

    def __str__(self) -> str:
        """Return the name of the first file and the number of further files."""
        further_files = len(self.files) - 1
        return str(self.files[0]) + (f" and {further_files} more files" if further_files else "")

    def begin(self, path: Path) -> None:
        """Start a new file: all rows added after this call belong to `path`."""
        self.files.append(path)
        self.first.append(len(self))

    def keys(self, rank: IntArray) -> Keys:
        """Return the keys of the rows, with tasks renumbered by `rank`."""
        return Keys(rank[integers(self.task)], integers(self.rollout))

    def places(self, rows: IntArray) -> RowPositions:
        """Return where `rows` are stored: the file and the byte offset of each."""
        return RowPositions(self.files, self._file_of(rows), integers(self.offset)[rows])

    def lines_of(self, rows: Sequence[int]) -> str:
        """Return the lines of `rows` as text: `lines 2 and 7` or, with several files, `a.jsonl:2
        and b.jsonl:7`.
        """
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


class RowPlace(NamedTuple):
    """Where a row is: the number of its file, and its byte offset in the uncompressed file."""

    file: int
    offset: int


@dataclass(frozen=True, slots=True, order=True)
class FailedAttempt:
    """One failed attempt. Attempts compare by number, then by class name, so that the order of rows
    does not matter.
    """

    attempt: int
    failure_class: str
    terminal: bool = field(default=False, compare=False)
    retriable: bool = field(default=False, compare=False)
    place: RowPlace = field(default=RowPlace(0, 0), compare=False)
    answer_place: RowPlace | None = field(default=None, compare=False)
    """Where a model answer is kept, of this or another attempt of the rollout; None without one."""
    reverify: ReverifyCommand | None = field(default=None, compare=False)
    """The command that verifies the kept answer; None when unknown."""

    @property
    def answered(self) -> bool:
        """Whether a model answer is kept, from this or another attempt of the rollout."""
        return self.answer_place is not None

    @property
    def remedy(self) -> Remedy:
        """The remedy for a rollout without a score."""
        return remedy_of(
            terminal=self.terminal,
            retriable=self.retriable,
            was_answered=self.answered,
            failure_class=self.failure_class,
        )

    def together(self, second: "FailedAttempt") -> "FailedAttempt":
        """Return the later of two attempts of one rollout, with the kept answer of either attempt."""
        later = max(self, second)
        answered_attempt = next((attempt for attempt in (self, second) if attempt.answered), later)
        return replace(
            later, answer_place=answered_attempt.answer_place, reverify=answered_attempt.reverify
        )


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """The files of one run, read but not yet joined. All files share the same codes."""

    tasks: Codes[TaskIndex]
    agents: Codes[AgentName]
    families: Codes[str] | None
    inputs: KeyTable
    rollouts: KeyTable
    columns: Columns
    endings: Endings
    failures: Mapping[tuple[TaskIndex, int], FailedAttempt]
    """The last failed attempt of each key."""
    failure_files: Sequence[Path]
    notices: tuple[str, ...]
    missing_shards: MissingShards | None


def integers(column: "array[int]") -> IntArray:
    return np.array(column, dtype=np.int64)
