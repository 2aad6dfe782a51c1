"""One pass over each file of each shard: the key and position of every row.

Each row needs about sixty bytes of memory, whatever its size on disk.
"""

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.datasets import RowProblems
from palestra.engine import ending_in
from palestra.errors import Outcome
from palestra.rollouts.merging.sources import MOST_NAMED, NumberedFiles, RowPlace, ShardToMerge
from palestra.schema import (
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TOOL_FAILURES,
)

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
OUTCOMES = tuple(Outcome)
"""All outcomes; the index of each is its code in the columns."""
_CODE_OF = {outcome.value: code for code, outcome in enumerate(OUTCOMES)}
NO_CODE = -1
"""The code of an unknown failure class. Only attempts that were retried may have it."""

Index = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Keyed(msgspec.Struct):
    """The fields of a materialized row that the merge needs."""

    task: Index = msgspec.field(name=TASK_INDEX)
    rollout: Index = msgspec.field(name=ROLLOUT_INDEX)


class _Details(msgspec.Struct):
    reason: Any = None


class _Response(msgspec.Struct):
    incomplete_details: _Details | None = None
    usage: Any = None


class _ScoredRow(_Keyed, kw_only=True):
    reward: bool | int | float
    response: _Response | None = None
    tool_failures: Any = msgspec.field(name=TOOL_FAILURES, default=None)
    empty_answer: Any = msgspec.field(name=EMPTY_ANSWER, default=None)


class _FailureRow(_Keyed, kw_only=True):
    failure: str = msgspec.field(name=FAILURE_CLASS)
    terminal: bool = msgspec.field(name=FAILURE_TERMINAL, default=False)
    attempt: Index = 1


Row = TypeVar("Row", bound=_Keyed)


def _integers() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class RowColumns:
    """The keys and positions of all rows of one kind, over all shards."""

    task: "array[int]" = field(default_factory=_integers)
    rollout: "array[int]" = field(default_factory=_integers)
    shard: "array[int]" = field(default_factory=lambda: array("i"))
    source: "array[int]" = field(default_factory=lambda: array("i"))
    offset: "array[int]" = field(default_factory=_integers)
    length: "array[int]" = field(default_factory=_integers)

    def __len__(self) -> int:
        return len(self.task)

    def place(self, row: int) -> RowPlace:
        """Return the position of row number `row`."""
        return RowPlace(self.source[row], self.offset[row], self.length[row])


@dataclass(slots=True)
class ScoredColumns(RowColumns):
    """The scored rows, with the values that the accounting needs."""

    outcome: "array[int]" = field(default_factory=lambda: array("b"))
    reward: "array[float]" = field(default_factory=lambda: array("d"))
    output_tokens: "array[int]" = field(default_factory=_integers)
    empty: "array[int]" = field(default_factory=lambda: array("b"))
    broken_tools: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Row number -> broken tools, only for rows that have some."""


@dataclass(slots=True)
class FailureColumns(RowColumns):
    """The failed attempts."""

    outcome: "array[int]" = field(default_factory=lambda: array("b"))
    attempt: "array[int]" = field(default_factory=_integers)
    terminal: "array[int]" = field(default_factory=lambda: array("b"))


@dataclass(frozen=True, slots=True)
class Scanned:
    """The data read from all shards. `inputs`: None when no shard has materialized inputs."""

    inputs: RowColumns | None
    scored: ScoredColumns
    failures: FailureColumns
    notices: tuple[str, ...]


def numbers(column: "array[int]") -> IntArray:
    """Return a column as an array of 64-bit integers."""
    return np.array(column, dtype=np.int64)


def scan_shards(shards: Sequence[ShardToMerge], sources: NumberedFiles) -> Scanned:
    """Read every file of every shard once.

    An incomplete last line is skipped with a notice. Raises InputDataError that lists the lines
    that are not valid rows of a run.
    """
    scan = _Scan(sources)
    has_inputs = shards[0].paths.materialized_inputs.exists()
    for number, shard in enumerate(shards):
        if has_inputs:
            scan.inputs(number, shard.paths.materialized_inputs)
        if shard.paths.output.exists():
            scan.scored(number, shard.paths.output)
        if shard.paths.failures.exists():
            scan.failures(number, shard.paths.failures)
    return Scanned(
        scan.input_rows if has_inputs else None,
        scan.scored_rows,
        scan.failure_rows,
        _torn(scan.torn),
    )


def _torn(files: Sequence[str]) -> tuple[str, ...]:
    if not files:
        return ()
    addition = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    file_list = ", ".join(files[:MOST_NAMED])
    return (f"left out torn last lines, which have no end: {file_list}{addition}",)


class _Scan:
    def __init__(self, sources: NumberedFiles) -> None:
        self.input_rows = RowColumns()
        self.scored_rows = ScoredColumns()
        self.failure_rows = FailureColumns()
        self.torn: list[str] = []
        self._sources = sources

    def inputs(self, shard: int, path: Path) -> None:
        for _ in self._rows(shard, path, _Reader(_Keyed), self.input_rows):
            pass

    def scored(self, shard: int, path: Path) -> None:
        table = self.scored_rows
        for row in self._rows(shard, path, _ScoredReader(_ScoredRow), table):
            fields = {
                "response": row.response,
                TOOL_FAILURES: row.tool_failures,
                EMPTY_ANSWER: row.empty_answer,
            }
            ending = ending_in(fields, float(row.reward))
            if ending.broken_tools:
                table.broken_tools[len(table.outcome)] = ending.broken_tools
            table.outcome.append(_CODE_OF[ending.outcome])
            table.reward.append(ending.reward)
            table.output_tokens.append(_countable(ending.output_tokens))
            table.empty.append(ending.empty)

    def failures(self, shard: int, path: Path) -> None:
        table = self.failure_rows
        for row in self._rows(shard, path, _FailureReader(_FailureRow), table):
            table.outcome.append(_CODE_OF.get(row.failure, NO_CODE))
            table.attempt.append(row.attempt)
            table.terminal.append(row.terminal)

    def _rows(
        self, shard: int, path: Path, reader: "_Reader[Row]", table: RowColumns
    ) -> Iterator[Row]:
        """Yield the rows of a file, each after adding it to `table`."""
        source, lines = self._sources.scan(path)
        problems: list[tuple[int, str]] = []
        for offset, text in lines:
            if not text.endswith(b"\n"):
                self.torn.append(f"{path} ({len(text)} bytes)")
                break
            try:
                row = reader.read(text)
            except _NoRow as problem:
                problems.append((offset, str(problem)))
                continue
            table.task.append(row.task)
            table.rollout.append(row.rollout)
            table.shard.append(shard)
            table.source.append(source)
            table.offset.append(offset)
            table.length.append(len(text))
            yield row
        self._raise(source, path, problems)

    def _raise(self, source: int, path: Path, problems: Sequence[tuple[int, str]]) -> None:
        row_problems = RowProblems()
        for offset, what in problems:
            row_problems.add(path, self._sources.line_number(source, offset), what)
        row_problems.raise_if_any(
            hint="restore the file as `palestra collect` wrote it, or leave it out"
        )


class _NoRow(Exception):
    """The reason why a line is not a valid row for its file."""


class _Reader(Generic[Row]):
    """Decodes rows of one kind, and explains why other lines are invalid."""

    def __init__(self, kind: type[Row]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def read(self, text: bytes) -> Row:
        """Return the decoded row. Raises _NoRow with the reason."""
        try:
            row = self._decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            row = self._leniently(text)
        self.check(row)
        return row

    def check(self, row: Row) -> None:
        """Raise _NoRow: a value is invalid although its type is right."""

    def _leniently(self, text: bytes) -> Row:
        """Decode JSON that Python's `json` writes but strict parsers reject: NaN, lone surrogates."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise _NoRow(f"not JSON ({error})") from None
        try:
            return msgspec.convert(value, self._kind)
        except msgspec.MsgspecError as error:
            raise _NoRow(str(error)) from None


class _ScoredReader(_Reader[_ScoredRow]):
    def check(self, row: _ScoredRow) -> None:
        if not math.isfinite(row.reward):
            raise _NoRow(f"the reward is {row.reward}, not a finite number")


class _FailureReader(_Reader[_FailureRow]):
    def check(self, row: _FailureRow) -> None:
        code = _CODE_OF.get(row.failure, NO_CODE)
        if (code == NO_CODE and row.terminal) or (code != NO_CODE and OUTCOMES[code].has_reward):
            raise _NoRow(f"{FAILURE_CLASS} is {row.failure!r}, which is not a class of failure")


def _countable(tokens: int) -> int:
    return tokens if 0 <= tokens < 2**63 else 0
