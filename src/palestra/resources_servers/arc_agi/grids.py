r"""From a model's text to the grid it drew.

The grid is what the last closed `\boxed{…}` holds; without a box that holds one, the last grid in
the text, so that a model is judged by its grid and not by its LaTeX. One row within a sentence is
a quotation, unless there is nothing else.
"""

import re
from typing import Annotated, TypeAlias

import orjson
from pydantic import Field

from palestra.resources_servers.boxes import last_box

Grid: TypeAlias = list[list[Annotated[int, Field(ge=0, le=9)]]]

LARGEST_SIDE = 30
"""Cells of the longest row or column that the tasks have."""

_GRID = re.compile(r"\[\s*+(?:\[[0-9,\s]*+\]\s*+,?+\s*+)++\]")
_AROUND = " \t\r`*$.,;:"
"""What may stand on the lines of a grid that stands alone."""
_MOST_AROUND = 20
_LONGEST = 2 * LARGEST_SIDE * (LARGEST_SIDE + 2)
"""Characters of the largest grid, written without blanks."""


def grid_of(text: str) -> Grid | None:
    """The grid that the text ends with, or None."""
    box = last_box(text)
    boxed = None if box is None else _last_written(box)
    return boxed if boxed is not None else _last_written(text)


def _last_written(text: str) -> Grid | None:
    whole = quoted = None
    for match in _GRID.finditer(f"\n{text}\n"):
        grid = _read("".join(match[0].split()))
        if grid is None:
            continue
        if len(grid) > 1 or _stands_alone(match):
            whole = grid
        else:
            quoted = grid
    return whole or quoted


def _stands_alone(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    before = text[max(0, start - _MOST_AROUND) : start].rstrip(_AROUND)
    return before.endswith("\n") and text[end : end + _MOST_AROUND].lstrip(_AROUND)[:1] == "\n"


def _read(written: str) -> Grid | None:
    """The grid, when it is one: rows of equal length, colours of one digit."""
    if len(written) > _LONGEST:
        return None
    try:
        rows = orjson.loads(written)
    except orjson.JSONDecodeError:  # "[1,,2]" or "[01]"
        return None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 1 <= widths.pop() <= LARGEST_SIDE or len(rows) > LARGEST_SIDE:
        return None
    if any(not 0 <= cell <= 9 for row in rows for cell in row):
        return None
    return [list(row) for row in rows]
