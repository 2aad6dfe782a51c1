r"""LaTeX's `\boxed{…}`, in which models are asked to put their answer. Shared by environments.

Linear in the length of the text; never raises.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BOXED: Final = re.compile(r"(\\boxed\s*\{)|\\.|[{}]", re.DOTALL)
_BOXED_OR_FRAMED: Final = re.compile(r"(\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Box:
    """A closed box: its content and where it stood, command and braces included."""

    content: str
    start: int
    end: int


def closed_boxes(text: str, *, framed: bool = False) -> Iterator[Box]:
    r"""The boxes of a text in the order of their ends, without those around others.

    `framed`: `\fbox{…}` is one too.
    """
    open_braces: list[tuple[int, int] | None] = []
    last = -1
    for token in (_BOXED_OR_FRAMED if framed else _BOXED).finditer(text):
        if token[1]:
            open_braces.append(token.span())
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            opened = open_braces.pop()
            if opened is not None and opened[0] > last:
                last = opened[0]
                yield Box(text[opened[1] : token.start()], opened[0], token.end())


def last_box(text: str, *, framed: bool = False) -> str | None:
    r"""The content of the last closed `\boxed{…}`, or None; of nested ones, the innermost."""
    last = deque(closed_boxes(text, framed=framed), maxlen=1)
    return last[0].content if last else None
