r"""Where in a text the answer is: its `\boxed{…}` (or `\fbox{…}`), else the end of the text.

Pure functions that never raise, linear in the text's length. The last closed box counts; of
nested ones, the innermost. Boxes that stand in a row, with hardly more than "and" between them,
are also one answer together: solutions of an equation are often boxed one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from palestra.resources_servers.latex_text import Box, closed_boxes

LONGEST_ANSWER: Final = 10_000
"""Characters of a box that are graded; no answer is longer."""
LONGEST_ROW: Final = 50
"""Boxes that can be one answer together."""
LONGEST_TAIL: Final = 10_000
"""Characters that are searched, from the end, in a text without a box."""

_OPENED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN = re.compile(r"[\s,;.$\\()\[\]]*(?:(?:and|or)[\s,;.$\\()\[\]]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answers:
    """What to grade. With no box at all `readings` is empty, and `tail` the end of the text."""

    readings: Sequence[str] = ()
    """Ways to read the answer, the one that counts first."""
    tail: str = ""


def find_answers(text: str) -> Answers:
    """The answers that a text gives. Both fields are empty when its only box was never closed."""
    found = list(closed_boxes(text, framed=True))
    if found:
        row = [box.content.strip() for box in _last_row(text, found)]
        return Answers((row[-1], ", ".join(row)) if len(row) > 1 else (row[-1],))
    return Answers() if _OPENED.search(text) else Answers(tail=text[-LONGEST_TAIL:])


def _last_row(text: str, boxes: Sequence[Box]) -> list[Box]:
    """The last box and those that stand in a row with it, in their order."""
    row = [boxes[-1]]
    for box in reversed(boxes[-LONGEST_ROW:-1]):
        if not _BETWEEN.fullmatch(text, box.end, row[0].start):
            break
        row.insert(0, box)
    return row
