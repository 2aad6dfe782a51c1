r"""Read LaTeX around a short answer: `\boxed{…}`, `\text{…}`, spaces and escapes.

Several environments use it. Every function takes linear time, and never raises.
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
    """A closed box: its content, and its position in the text including the command and braces."""

    content: str
    start: int
    end: int


def closed_boxes(text: str, *, framed: bool = False) -> Iterator[Box]:
    r"""Yield the boxes of a text in the order of their ends. A box around another is left out.

    `framed`: whether `\fbox{…}` counts as a box too.
    """
    if r"\boxed" not in text and not (framed and r"\fbox" in text):
        return  # most texts, and quickly
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
    r"""Return the content of the last closed `\boxed{…}`; None when there is none. Of nested boxes,
    the innermost counts.
    """
    last = deque(closed_boxes(text, framed=framed), maxlen=1)
    return last[0].content if last else None


TEXT_COMMANDS: Final = (
    "boxed|fbox|mbox|text|textbf|textit|textrm|textsf|texttt|textup|textnormal|emph|underline|"
    "mathrm|mathbf|mathsf|mathit|mathtt|operatorname"
)
"""Commands that only change the look of their content, as alternatives of a regular expression."""

_TOKEN: Final = re.compile(rf"(\\(?:{TEXT_COMMANDS})\s?\{{)|\\.|[{{}}]", re.DOTALL)
_DECLARATION: Final = re.compile(r"\\(?:rm|bf|it|sf|tt)(?![A-Za-z])\s*")
_SPACE: Final = re.compile(r"\\(?:[ ,;:!]|q?quad(?![A-Za-z]))|(?<=\w)~(?=\w)")
_ESCAPE: Final = re.compile(r"\\([%$&_#])")


def plain_text(text: str) -> str:
    r"""Remove text commands: `\textbf{(B)}\ 50\%` becomes `(B) 50%`.

    Other commands stay, and so does a `~` that does not join two words.
    """
    if "\\" not in text and "~" not in text:
        return text
    plain = _DECLARATION.sub("", _without_text_commands(text))
    return _ESCAPE.sub(r"\1", _SPACE.sub(" ", plain))


def _without_text_commands(text: str) -> str:
    open_braces: list[re.Match[str] | None] = []
    cuts: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        if token[1]:
            open_braces.append(token)
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            opened = open_braces.pop()
            if opened is not None:
                cuts += (opened.span(), token.span())
    pieces, at = [], 0
    for start, end in sorted(cuts):
        pieces.append(text[at:start])
        at = end
    return "".join((*pieces, text[at:]))
