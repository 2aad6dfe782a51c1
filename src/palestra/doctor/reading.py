"""Types for what a run left behind. An observation is one statement with its location.

This module draws no conclusions. `logs` reads what commands printed, `outputs` reads the files of a
run, `slurm` reads a job's state; `diagnose` concludes from them what went wrong.
"""

import itertools
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.config import mask_line
from palestra.doctor.findings import Quote, quote
from palestra.errors import FieldProblem, Layer, RowIdentity
from palestra.schema import ReverifyCommand, open_packed

MOST_PLACES: Final = 3
LONGEST_LINE: Final = 20_000
"""Largest number of bytes of a line that are quoted."""


class Rank(IntEnum):
    """How near an observation is to the cause, the nearest first."""

    ENDED = 0
    """The error that ended the command."""
    FAILURE = 1
    """An error that ended a rollout."""
    EXCEPTION = 2
    """An exception or an error in a log."""
    LINE = 3
    """Another informative line."""
    RELAY = 4
    """A line that only passes on a failure from elsewhere; used only when there is nothing else."""


@dataclass(frozen=True, slots=True)
class LogObservation:
    """One line of a log or file, or a mismatch between files (then `cause` is set).

    `layer`: the layer recorded with it. `recovered`: another attempt succeeded.
    """

    text: str
    quotes: tuple[Quote, ...]
    rank: Rank
    layer: Layer | None = None
    cause: str = ""
    row: RowIdentity | None = None
    problems: tuple[FieldProblem, ...] = ()
    recovered: bool = False
    hint: str = ""
    reverify: ReverifyCommand | None = None
    """The command that verifies the kept response of a failed attempt."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """The observations of one log. `outputs`: the rollouts files that its command wrote, named as
    in the log.
    """

    path: Path
    lines: int
    observations: tuple[LogObservation, ...]
    noise: int = 0
    """The number of ignored lines that servers print whenever they stop."""
    outputs: tuple[str, ...] = ()


_PLACES: Final = (
    re.compile(r"(?P<path>/\S+\.(?:py|ya?ml|jsonl?|toml)):(?P<line>\d+)"),
    re.compile(r"(?P<path>/\S+\.(?:ya?ml|jsonl?)),? line (?P<line>\d+)"),
)
_BAD_ROWS: Final = re.compile(r"(?P<path>/\S+): [\d,]+ rows? cannot be used")
_BAD_ROW: Final = re.compile(r"\bline (?P<line>\d+): (?P<pointer>/\S*(?=: ))?")


def quoted_places(text: str) -> tuple[Quote, ...]:
    """Quote the lines of files that a message names, as they are in the files now."""
    matches = [
        (m["path"], int(m["line"]), "") for pattern in _PLACES for m in pattern.finditer(text)
    ]
    if rows := _BAD_ROWS.search(text):
        listed = _BAD_ROW.finditer(text, rows.end())
        matches += [(rows["path"], int(m["line"]), m["pointer"] or "") for m in listed]
    unique = dict.fromkeys((path, line, pointer) for path, line, pointer in matches)
    quotes = (
        quote(path, shown_line(Path(path), line_at(Path(path), line)), line=line, pointer=pointer)
        for path, line, pointer in itertools.islice(unique, MOST_PLACES)
    )
    return tuple(quotes)


def shown_line(path: Path, line: str) -> str:
    """Return a line of a file in a form that may be shown: a config line has its secrets masked."""
    return mask_line(line) if path.suffix in {".yaml", ".yml"} else line


def line_at(path: Path, number: int) -> str:
    """Return line `number` of a file, counted from 1; empty when it does not exist."""
    try:
        with path.open("rb") as file:
            line_bytes = next(itertools.islice(file, number - 1, number), b"")
    except OSError:
        return ""
    return line_bytes[:LONGEST_LINE].decode("utf-8", "replace").strip()


def json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the line number and the value of each line of `path` that is JSON. The file may be
    compressed.
    """
    with open_packed(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, orjson.loads(line.removeprefix(BOM_UTF8))
            except orjson.JSONDecodeError:
                continue
