r"""Find the answer in a text: its `\boxed{…}` (or `\fbox{…}`), else the end of the text.

Pure functions that never raise and take linear time. The last closed box counts; of nested boxes,
the innermost. Boxes in a row, with little more than "and" between them, also count as one answer
together, because solutions of an equation are often boxed one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from palestra.resources_servers.latex_text import Box, closed_boxes

LONGEST_ANSWER: Final = 10_000
"""The number of characters of a box that can be graded; no right answer is longer."""
LONGEST_ROW: Final = 50
"""The largest number of boxes that can be one answer together."""
LONGEST_TAIL: Final = 10_000
"""The number of characters at the end of a text without a box that are searched."""

_OPENED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN = re.compile(r"[\s,;.$\\()\[\]]*(?:(?:and|or)[\s,;.$\\()\[\]]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answers:
    """The text to grade. Without any box, `readings` is empty and `tail` is the end of the text."""

    readings: Sequence[str] = ()
    """The ways to read the answer, the preferred one first."""
    tail: str = ""


def find_answers(text: str) -> Answers:
    """Return the answers in a text. Both fields are empty when its only box was never closed."""
    boxes = list(closed_boxes(text, framed=True))
    if boxes:
        row = [box.content.strip() for box in _last_row(text, boxes)]
        return Answers((row[-1], ", ".join(row)) if len(row) > 1 else (row[-1],))
    return Answers() if _OPENED.search(text) else Answers(tail=text[-LONGEST_TAIL:])


def _last_row(text: str, boxes: Sequence[Box]) -> list[Box]:
    """Return the last box and the boxes in a row with it, in text order."""
    row = [boxes[-1]]
    for box in reversed(boxes[-LONGEST_ROW:-1]):
        if not _BETWEEN.fullmatch(text, box.end, row[0].start):
            break
        row.insert(0, box)
    return row
