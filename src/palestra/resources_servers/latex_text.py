r"""LaTeX around a short answer: `\boxed{…}`, `\text{…}`, spaces and escapes. Shared by environments.

Everything is linear in the length of the text, and never raises.
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


TEXT_COMMANDS: Final = (
    "boxed|fbox|mbox|text|textbf|textit|textrm|textsf|texttt|textup|textnormal|emph|underline|"
    "mathrm|mathbf|mathsf|mathit|mathtt|operatorname"
)
"""Commands that only say how their content looks, as alternatives of a pattern."""

_TOKEN: Final = re.compile(rf"(\\(?:{TEXT_COMMANDS})\s?\{{)|\\.|[{{}}]", re.DOTALL)
_DECLARATION: Final = re.compile(r"\\(?:rm|bf|it|sf|tt)(?![A-Za-z])\s*")
_SPACE: Final = re.compile(r"\\(?:[ ,;:!]|q?quad(?![A-Za-z]))|(?<=\w)~(?=\w)")
_ESCAPE: Final = re.compile(r"\\([%$&_#])")


def plain_text(text: str) -> str:
    r"""What a text says to its reader: `\textbf{(B)}\ 50\%` is `(B) 50%`.

    Commands other than those of text stay as they are, and so does a `~` that ties no words.
    """
    if "\\" not in text and "~" not in text:
        return text
    shown = _DECLARATION.sub("", _without_text_commands(text))
    return _ESCAPE.sub(r"\1", _SPACE.sub(" ", shown))


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
    kept, at = [], 0
    for start, end in sorted(cuts):
        kept.append(text[at:start])
        at = end
    return "".join((*kept, text[at:]))
