"""Collect all problems of the rows in files and report them in one error, with line ranges."""

import re
import shlex
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Final, Self

from palestra.config import nearest_file
from palestra.errors import InputDataError
from palestra.system import matching_files, shown

MOST_KINDS: Final = 20
MOST_KINDS_KEPT: Final = 1000
"""The maximum number of different problem texts kept per file. Beyond it, only the line numbers are
kept."""
_MOST_VALUES: Final = 2
"""With two values, it is known that rows with one problem have several."""
OTHER: Final = "other problems"
_URL: Final = re.compile(r"(https?|s3|gs):/+(.+)")
"""A URL as the text of a path, which has single slashes."""
_REPOSITORY: Final = re.compile(r"(?:^|/)(hf:.+)")
"""A dataset of the hub as the text of a path."""


def missing_file(path: Path, what: str = "") -> InputDataError:
    """Return the error for a file of rows that does not exist. `what`: words before its path."""
    name = f"{what} {shown(path)}".lstrip()
    if (url := _URL.search(shown(path))) is not None:
        return InputDataError(
            f"{url[1]}://{url[2]} is a URL, and rows are read from files", hint="download it first"
        )
    if (repository := _REPOSITORY.search(shown(path))) is not None:
        return InputDataError(
            f"{repository[1]} is a dataset of the Hugging Face hub, and rows are read from files",
            hint=f"`palestra dataset import {shlex.quote(repository[1])}` makes a file of rows of it; "
            "the data of an environment in one file may be such a dataset",
        )
    if not has_magic(shown(path)):
        near = nearest_file(path)
        return InputDataError(
            f"{name} does not exist",
            hint=f"did you mean {shown(near)}?"
            if near
            else "relative paths are looked up from the working directory, then in the "
            "installed package",
        )
    if not matching_files(path):
        return InputDataError(
            f"{name} matches no file",
            hint="a glob starts at the working directory; in an environment's data, at its file",
        )
    return InputDataError(
        f"{name} is a glob, and this is about one file",
        hint=f"join those of the pattern first: cat {shown(path)} > tasks.jsonl",
    )


class LineRanges:
    """A set of line numbers, stored as ranges."""

    __slots__ = ("_first", "_last")

    def __init__(self, lines: Iterable[int] = ()) -> None:
        self._first = array("q")
        self._last = array("q")
        for line in lines:
            self.add(line)

    def add(self, first: int, last: int | None = None) -> None:
        """Add the lines `first` to `last`. Adding in ascending order uses the least memory."""
        end = first if last is None else last
        if self._last and self._first[-1] <= first <= self._last[-1] + 1:
            self._last[-1] = max(self._last[-1], end)
        else:
            self._first.append(first)
            self._last.append(end)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last line of each range, in ascending order."""
        begin, end = 0, -1
        for first, last in sorted(zip(self._first, self._last, strict=True)):
            if first > end + 1 and end >= begin:
                yield begin, end
            if first > end + 1 or end < begin:
                begin = first
            end = max(end, last)
        if end >= begin:
            yield begin, end

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges())

    def __str__(self) -> str:
        return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges())


class ValueProblem(str):
    """A problem of a row that is about a value. Rows that are bad in the same way have equal problems,
    whatever their values are.

    `value`: the value in short; empty when it is not to be quoted.
    """

    __slots__ = ("value",)
    value: str

    def __new__(cls, text: str, value: str) -> Self:
        problem = super().__new__(cls, text)
        problem.value = value
        return problem


class RowProblems:
    """Collects the problems of rows and reports them by kind, with line ranges."""

    def __init__(self) -> None:
        self._files: dict[Path, dict[str, LineRanges]] = {}
        self._values: dict[tuple[Path, str], list[str]] = {}

    def add(self, path: Path, line: int, what: str) -> None:
        """Record the problem `what` for line `line` of `path`."""
        self._lines(path, what).add(line)
        if isinstance(what, ValueProblem) and what.value:
            values = self._values.setdefault((path, str(what)), [])
            if len(values) < _MOST_VALUES and what.value not in values:
                values.append(what.value)

    def found(self) -> Iterator[tuple[Path, str, LineRanges]]:
        """Yield the file, text and lines of each kind of problem."""
        for path in self._files:
            for what, lines in self._quoting(path).items():
                yield path, what, lines

    def _lines(self, path: Path, what: str) -> LineRanges:
        kinds = self._files.setdefault(path, {})
        if what not in kinds and len(kinds) >= MOST_KINDS_KEPT:
            what = OTHER
        return kinds.setdefault(what, LineRanges())

    def __bool__(self) -> bool:
        return bool(self._files)

    def raise_if_any(self, *, hint: str = "") -> None:
        """Raise BadRows that lists every line with its problem; do nothing when no problem was
        recorded.
        """
        if self._files:
            descriptions = [_describe(path, self._quoting(path)) for path in self._files]
            raise BadRows("\n".join(descriptions), hint=hint, rows=self)

    def _quoting(self, path: Path) -> dict[str, LineRanges]:
        """Return the problems of a file, each with the value that it is about."""
        return {
            what + _quoted(self._values.get((path, what), ())): lines
            for what, lines in self._files[path].items()
        }


def _quoted(values: Sequence[str]) -> str:
    """Return the words about the values of a problem, to add to its text."""
    if not values:
        return ""
    return f", got {values[0]}" if len(values) == 1 else f", such as {values[0]}"


class BadRows(InputDataError):
    """Some rows cannot be used. `rows`: every bad line with its problems."""

    def __init__(self, message: str, *, hint: str = "", rows: RowProblems) -> None:
        super().__init__(message, hint=hint)
        self.rows = rows


def _describe(path: Path, kinds: Mapping[str, LineRanges]) -> str:
    """Return a text with all bad lines of one file, grouped by kind of problem."""
    bad = len(_together(kinds.values()))
    first_kinds, others = list(kinds.items())[:MOST_KINDS], list(kinds.values())[MOST_KINDS:]
    descriptions = [f"  {_where(lines)}: {what}" for what, lines in first_kinds]
    if others:
        descriptions.append(f"  {_where(_together(others))}: {len(others)} other kinds of problems")
    rows = "row" if bad == 1 else "rows"
    return f"{path}: {bad} {rows} cannot be used\n" + "\n".join(descriptions)


def _together(kinds: Iterable[LineRanges]) -> LineRanges:
    ranges = LineRanges()
    for lines in kinds:
        for first, last in lines.ranges():
            ranges.add(first, last)
    return ranges


def _where(lines: LineRanges) -> str:
    return ("line " if len(lines) == 1 else "lines ") + str(lines)


def line_ranges(lines: Iterable[int]) -> str:
    """Return line numbers as text: `4, 17-20` for 4, 17, 18, 19, 20."""
    return str(LineRanges(lines))
