"""Everything wrong with the rows of a file, said in one error."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from palestra.errors import InputDataError

MOST_KINDS = 20


class RowProblems:
    """Collects what is wrong, line by line, and says it by kind with ranges of lines."""

    def __init__(self) -> None:
        self._files: dict[Path, dict[str, list[int]]] = {}

    def add(self, path: Path, line: int, what: str) -> None:
        """Line `line` of `path` has the problem `what`."""
        self._files.setdefault(path, {}).setdefault(what, []).append(line)

    def __bool__(self) -> bool:
        return bool(self._files)

    def raise_if_any(self, *, hint: str = "") -> None:
        """Raise InputDataError naming every line with its problem; do nothing without any."""
        if self._files:
            told = [_describe(path, kinds) for path, kinds in self._files.items()]
            raise InputDataError("\n".join(told), hint=hint)


def _describe(path: Path, kinds: Mapping[str, list[int]]) -> str:
    """Every line of one file that cannot be used, by kind of problem."""
    bad = len({line for lines in kinds.values() for line in lines})
    told = [f"  {_where(lines)}: {what}" for what, lines in list(kinds.items())[:MOST_KINDS]]
    if len(kinds) > MOST_KINDS:
        told.append(f"  and {len(kinds) - MOST_KINDS} other kinds of problems")
    rows = "row" if bad == 1 else "rows"
    return f"{path}: {bad} {rows} cannot be used\n" + "\n".join(told)


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
