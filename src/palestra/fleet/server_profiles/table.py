"""The table of a server's functions, the most expensive ones first; and for KCachegrind."""

from collections.abc import Sequence
from typing import Final

from palestra.fleet.server_profiles.calls import FunctionTimes

COLUMNS: Final = ("name", "ncall", "tsub", "ttot", "tavg")


def table_of(functions: Sequence[FunctionTimes]) -> str:
    """Text: the columns, and a line for each function, the largest `ttot` first."""
    rows = [
        (one.name, str(one.ncall), f"{one.tsub:.6f}", f"{one.ttot:.6f}", f"{one.tavg:.6f}")
        for one in sorted(functions, key=lambda one: (-one.ttot, one.name))
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    return "\n".join(_line(row, widths) for row in (COLUMNS, *rows)) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    shown = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
    return "  ".join([name.ljust(widths[0]), *shown])


def callgrind_of(functions: Sequence[FunctionTimes]) -> str:
    """The same for KCachegrind and the like, in microseconds. Says nothing of the command line."""
    known = {one.index for one in functions}
    lines = ["version: 1", "creator: palestra", "positions: line", "events: Microseconds", ""]
    for one in functions:
        lines += [f"fl=({one.index}) {one.module}", f"fn=({one.index}) {one.name}"]
        lines += [f"{one.line} {round(one.tsub * 1e6)}"]
        for callee in one.callees:
            if callee.index in known:
                lines += [f"cfi=({callee.index})", f"cfn=({callee.index})"]
                lines += [f"calls={callee.ncall} 0", f"{one.line} {round(callee.ttot * 1e6)}"]
        lines.append("")
    # A name is told where its number first stands, which may be in a call.
    return _named_first(lines, functions)


def _named_first(lines: Sequence[str], functions: Sequence[FunctionTimes]) -> str:
    names = {f"({one.index})": one for one in functions}
    told: set[str] = set()
    out: list[str] = []
    for line in lines:
        key, _, value = line.partition("=")
        if key in {"fl", "fn", "cfi", "cfn"}:
            number = value.partition(" ")[0]
            kind = "file" if key in {"fl", "cfi"} else "function"
            name = names[number].module if kind == "file" else names[number].name
            said = kind + number in told
            told.add(kind + number)
            out.append(f"{key}={number}" if said else f"{key}={number} {name}")
        else:
            out.append(line)
    return "\n".join(out) + "\n"
