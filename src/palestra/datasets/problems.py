"""Everything wrong with the rows of files, said in one error: every line, in ranges."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from palestra.errors import InputDataError

MOST_KINDS: Final = 20
MOST_KINDS_KEPT: Final = 1000
"""Beyond it, of a file where every line is wrong in a way of its own, only the lines are kept."""
OTHER: Final = "other problems"


class LineRanges:
    """Numbers of lines, as ranges."""

    __slots__ = ("_first", "_last")

    def __init__(self, lines: Iterable[int] = ()) -> None:
        self._first = array("q")
        self._last = array("q")
        for line in lines:
            self.add(line)

    def add(self, first: int, last: int | None = None) -> None:
        """Take the lines from `first` to `last`; in their order, they take the least memory."""
        end = first if last is None else last
        if self._last and self._first[-1] <= first <= self._last[-1] + 1:
            self._last[-1] = max(self._last[-1], end)
        else:
            self._first.append(first)
            self._last.append(end)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First and last line of each range, from the lowest on."""
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


class RowProblems:
    """Collects what is wrong, line by line, and says it by kind with ranges of lines."""

    def __init__(self) -> None:
        self._files: dict[Path, dict[str, LineRanges]] = {}

    def add(self, path: Path, line: int, what: str) -> None:
        """Line `line` of `path` has the problem `what`."""
        self._lines(path, what).add(line)

    def found(self) -> Iterator[tuple[Path, str, LineRanges]]:
        """Each kind of problem in each file."""
        for path, kinds in self._files.items():
            for what, lines in kinds.items():
                yield path, what, lines

    def _lines(self, path: Path, what: str) -> LineRanges:
        kinds = self._files.setdefault(path, {})
        if what not in kinds and len(kinds) >= MOST_KINDS_KEPT:
            what = OTHER
        return kinds.setdefault(what, LineRanges())

    def __bool__(self) -> bool:
        return bool(self._files)

    def raise_if_any(self, *, hint: str = "") -> None:
        """Raise BadRows naming every line with its problem; do nothing without any."""
        if self._files:
            descriptions = [_describe(path, kinds) for path, kinds in self._files.items()]
            raise BadRows("\n".join(descriptions), hint=hint, rows=self)


class BadRows(InputDataError):
    """Rows that cannot be used; `rows` has each line and its problems."""

    def __init__(self, message: str, *, hint: str = "", rows: RowProblems) -> None:
        super().__init__(message, hint=hint)
        self.rows = rows


def _describe(path: Path, kinds: Mapping[str, LineRanges]) -> str:
    """Every line of one file that cannot be used, by kind of problem."""
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
    """`4, 17-20` for 4, 17, 18, 19, 20."""
    return str(LineRanges(lines))
