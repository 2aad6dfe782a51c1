"""From a model's text to its program: the last closed block of ``` fences.

Ordinary text is read as LiveCodeBench and Markdown both do: a line with a fence opens a block, and
the next such line closes it. Where fences are odd:

- A fence with a name, like ```python, never closes. Within a block that was left open it begins
  another, in place of the one left open.
- A fence that stands deeper than the opening one, as in a docstring, is part of the program; so is
  one of fewer backticks.
"""

import re
from collections.abc import Sequence
from typing import Final

DEEPER: Final = 3
"""Columns by which a closing fence may stand to the right of the opening one."""

_FENCE: Final = re.compile(r"`{3,}")
_MARGIN: Final = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?=`)")
"""Before a fence: blanks, and the mark of the list's item that it may begin."""
_NAME: Final = re.compile(r"[\w+#.-]+\s*")


def last_code_block(text: str) -> str | None:
    """What the last closed block holds; None when there is no such block. Never raises."""
    lines = text.split("\n")
    opened: tuple[int, re.Match[str]] | None = None
    block: tuple[int, int] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.search(line)
        if fence is None:
            continue
        if opened is None:
            opened = number, fence
            continue
        first, opening = opened
        if fence.start() > opening.start() + DEEPER:
            continue
        if _NAME.fullmatch(line, fence.end()):
            opened = number, fence
        elif len(fence[0]) >= len(opening[0]):
            block, opened = (first, number), None
    if block is None:
        return None
    return "\n".join(_program(lines[block[0]], lines[block[0] + 1 : block[1]]))


def _program(fence: str, lines: Sequence[str]) -> Sequence[str]:
    """The lines without the indentation of the fence above them, where the first of them has it."""
    found = _MARGIN.match(fence)
    margin = re.sub(r"\S", " ", found[0]) if found else ""
    first = next((line for line in lines if line.strip()), "")
    return [line.removeprefix(margin) for line in lines] if first.startswith(margin) else lines
