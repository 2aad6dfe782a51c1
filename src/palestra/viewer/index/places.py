"""Where rows are in the files of a run, and reading them from there."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from palestra.errors import InputDataError


class Part(StrEnum):
    """Which file of the run a row is in."""

    INPUT = "input"
    """The materialized inputs: what was requested."""
    RESULT = "result"
    """The scored rows."""
    FAILURE = "failure"
    """The failed attempts; for a rollout, its last one."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The place of one row. `offset` and `length` count bytes of the uncompressed file; the line
    break is not part of the length. `line` counts from 1.
    """

    path: Path
    offset: int
    length: int
    line: int


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that is not a row. `path` and `line` say where it is, `reason` says why."""

    path: Path
    line: int
    reason: str


class RunChanged(InputDataError):
    """The file was replaced, cut or removed since it was indexed. `refresh` builds the index anew."""


def read_row(place: RowPlace, *, start: int = 0, length: int | None = None) -> bytes:
    """Return the bytes of a row, or the part of it from byte `start`.

    Raises RunChanged: the file is gone, was cut, or has no row at this place any more. Raises
    InputDataError: the file is compressed and too large to be set aside; unpack it first.
    """
    raise NotImplementedError
