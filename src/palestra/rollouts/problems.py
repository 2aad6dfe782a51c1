"""Everything wrong with the rows of a file, said in one error."""

from collections.abc import Iterable
from pathlib import Path

from palestra.errors import InputDataError

MOST_KINDS = 20


class RowProblems:
    """Collects what is wrong, line by line, and says it by kind with ranges of lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, list[int]] = {}

    def add(self, line: int, what: str) -> None:
        """Line `line` has the problem `what`."""
        self._lines.setdefault(what, []).append(line)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def raise_if_any(self, *, hint: str = "") -> None:
        """Raise InputDataError naming every line with its problem; do nothing without any."""
        if not self._lines:
            return
        bad = len({line for lines in self._lines.values() for line in lines})
        kinds = [
            f"  {_where(lines)}: {what}" for what, lines in list(self._lines.items())[:MOST_KINDS]
        ]
        if len(self._lines) > MOST_KINDS:
            kinds.append(f"  and {len(self._lines) - MOST_KINDS} other kinds of problems")
        rows = "row" if bad == 1 else "rows"
        raise InputDataError(
            f"{self._path}: {bad} {rows} cannot be used\n" + "\n".join(kinds), hint=hint
        )


def _where(lines: list[int]) -> str:
    return ("line " if len(lines) == 1 else "lines ") + line_ranges(lines)


def line_ranges(lines: Iterable[int]) -> str:
    """`4, 17-20` for 4, 17, 18, 19, 20."""
    spans: list[list[int]] = []
    for line in sorted(set(lines)):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
