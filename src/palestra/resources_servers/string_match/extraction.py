r"""From a model's text to its answer, or None. Linear in the text; never raises.

A *box* is LaTeX's `\boxed{…}` or `\fbox{…}`; see `boxes.py` for which one counts.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, Literal

from palestra.resources_servers.boxes import last_box

ExtractionMode = Literal["boxed", "final_answer", "last_line", "full"]

_MARKER: Final = re.compile(
    r"\b(?:final[ \t]+answer|answer)[ \t*_]{0,8}(?:is[ \t*_]{0,8})?[:\uff1a]", re.IGNORECASE
)
_WRAPPER: Final = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathsf|mathit|mbox|boxed)\s?\{(.*)\}", re.DOTALL
)
_EDGES: Final = " \t\r\n*_`$"
_QUOTES: Final = (('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019"))
_CLOSED: Final = re.compile(r"[*_`$}\"'\u201d\u2019]\.$")
"""A period behind what closes the answer: it ends the sentence."""
_MOST_WRAPPERS: Final = 8


def boxed(text: str) -> str | None:
    """What the last closed box holds."""
    content = last_box(text, framed=True)
    return None if content is None else bare(content)


def final_answer(text: str) -> str | None:
    """What follows the last "Final answer:" or "Answer:", to the end of its line or the next."""
    last = None
    for last in _MARKER.finditer(text):  # noqa: B007  # the last match is what we want
        pass
    if last is None:
        return None
    rest = text[last.end() :].lstrip(_EDGES)
    return bare(_opened(rest.split("\n", 1)[0])) or None


def last_line(text: str) -> str | None:
    """The last line that is not empty."""
    stripped = text.rstrip()
    return bare(_opened(stripped[stripped.rfind("\n") + 1 :])) or None


def full(text: str) -> str | None:
    """All of the text."""
    return text.strip() or None


MODES: Final[Mapping[str, Callable[[str], str | None]]] = {
    "boxed": boxed,
    "final_answer": final_answer,
    "last_line": last_line,
    "full": full,
}


def extracted(text: str, mode: ExtractionMode | None) -> str | None:
    """The answer by a mode; without one by the first of box, final answer and last line."""
    if mode is not None:
        return MODES[mode](text)
    return next((found for find in (boxed, final_answer, last_line) if (found := find(text))), None)


def same(one: str, other: str, *, case_sensitive: bool) -> bool:
    """Whether two answers are one text, but for white space and the period that may end it."""
    return _normal(one, case_sensitive) == _normal(other, case_sensitive)


def bare(text: str) -> str:
    r"""Without emphasis, quotes, dollar signs and `\text{…}` around all of it."""
    for _ in range(_MOST_WRAPPERS):
        inner = text.strip(_EDGES)
        if _CLOSED.search(inner, max(0, len(inner) - 2)):
            inner = inner[:-1].rstrip(_EDGES)
        for opening, closing in _QUOTES:
            if len(inner) > 1 and inner.startswith(opening) and inner.endswith(closing):
                inner = inner[1:-1]
        if match := _WRAPPER.fullmatch(inner):
            inner = match[1]
        if inner == text:
            break
        text = inner
    return text


def _opened(line: str) -> str:
    """What a box on the line holds, else the line."""
    content = last_box(line, framed=True)
    return line if content is None else content


def _normal(text: str, case_sensitive: bool) -> str:
    plain = " ".join(unicodedata.normalize("NFC", text).split()).removesuffix(".").rstrip()
    return plain if case_sensitive else plain.casefold()
