"""Where rows are in the files of a run, and reading them from there."""

import os
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from palestra.viewer.index.outcome_lines import row_of_outcome
from palestra.viewer.index.packed import PackedFrames, RunChanged, read_packed


class RunPart(StrEnum):
    """Which file of the run a row is in."""

    INPUT = "input"
    """The materialized inputs: what was requested."""
    RESULT = "result"
    """The scored rows."""
    FAILURE = "failure"
    """The failed attempts; for a rollout, its last one."""


@dataclass(frozen=True, slots=True)
class IndexedPlace:
    """The place of one row. `offset` and `length` count bytes of the uncompressed file; the line
    break is not part of the length. `line` counts from 1.
    """

    path: Path
    offset: int
    length: int
    line: int
    is_packed: bool = False
    frames: PackedFrames | None = field(default=None, repr=False, compare=False)
    """The copy of a packed file; None for a plain file, and for a packed one without a copy."""
    is_outcome: bool = False
    """Whether the line is an outcome of training, of which `read_row` makes a row."""

    @property
    def stored(self) -> "IndexedPlace":
        """The place of the line as it is stored."""
        return replace(self, is_outcome=False)


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that is not a row. `path` and `line` say where it is, `reason` says why."""

    path: Path
    line: int
    reason: str


def read_row(row_place: IndexedPlace, *, start: int = 0, length: int | None = None) -> bytes:
    """Return the bytes of a row, or the part of it from byte `start`.

    Raises RunChanged: the file is gone, was cut, or has no row at this place any more. Raises
    InputDataError: the file is compressed and too large to be set aside; unpack it first.
    """
    if row_place.is_outcome:
        row = row_of_outcome(read_row(row_place.stored))
        return row[start:] if length is None else row[start : start + length]
    remaining = max(row_place.length - start, 0)
    count = remaining if length is None else min(length, remaining)
    offset = row_place.offset + start
    if row_place.frames is not None:
        return row_place.frames.read(offset, count)
    try:
        if row_place.is_packed:
            return read_packed(row_place.path, offset, count)
        with row_place.path.open("rb") as file:
            has_start = row_place.offset == 0 or _is_line_break(file, row_place.offset - 1)
            file.seek(offset)
            data = file.read(count)
            has_end = _is_line_break(file, row_place.offset + row_place.length)
    except OSError as error:
        raise RunChanged(
            f"{row_place.path}: {error.strerror}; the row was on line {row_place.line}",
            hint="restore the file; until then only what is indexed can be shown",
        ) from error
    # a byte order mark stands before the first row
    if len(data) < count or not has_end or not (has_start or row_place.offset < 4):
        raise RunChanged(
            f"{row_place.path} changed: line {row_place.line} is no longer at byte {row_place.offset}",
            hint="load the page again: the file is indexed anew",
        )
    return data


def _is_line_break(file: BinaryIO, offset: int) -> bool:
    return os.pread(file.fileno(), 1, offset) == b"\n"
