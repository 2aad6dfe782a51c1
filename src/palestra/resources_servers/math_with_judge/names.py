r"""Names and labels: answers of letters whose order counts, `CAB`, `1A3`, `\triangle ABC`, `Amy`.

The library reads letters as a product, in which their order is nothing. Small letters that nobody
marks as text (`xy`) are one, and capitals with a factor (`2AB`), or with something between.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from palestra.resources_servers.math_with_judge.spelling import TEXT, WRAPPED

_FIGURE = re.compile(
    r"\\(?P<sign>triangle|angle|measuredangle|overline|overrightarrow|overleftrightarrow|vec|"
    r"widehat|square|Box|odot)(?![A-Za-z])|(?P<word>triangle|angle|line|segment|ray)\s+(?=[A-Z])"
)
_SAME_FIGURE: Final = {"measuredangle": "angle", "overline": "segment", "Box": "square"}
_SPACE = re.compile(r"[\s{}~$]|\\[,;:! ]")
_CAPITALS = re.compile(r"(?=\d*[A-Z])[0-9A-Z']{2,}")
_LABEL = re.compile(r"[A-Z']{2,}|[0-9A-Z']*[A-Z][0-9'][0-9A-Z']*")
_TITLE = re.compile(r"(?=.[a-z]*?[aeiouy])[A-Z][a-z]{2,}")
_LETTERS = re.compile(r"[a-z]{2,}")
_MARKED = re.compile(r"[A-Za-z]{2,}")


class _Kind(Enum):
    LABEL = "label"
    CAPITALS = "capitals"
    """That may be a product: `2AB`."""
    WORD = "word"
    LETTERS = "letters"
    """Small ones, that may be a product."""


_LIKE: Final = {
    _Kind.LABEL: _Kind.LABEL,
    _Kind.CAPITALS: _Kind.LABEL,
    _Kind.WORD: _Kind.WORD,
    _Kind.LETTERS: _Kind.WORD,
}


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    kind: _Kind
    figure: str = ""
    """What the label is of, where that is said: `triangle`."""


def same_name(one: str, other: str) -> bool | None:
    """Whether two names are the same; None when they are not both names."""
    first, second = _read(one), _read(other)
    if first is None or second is None or _LIKE[first.kind] is not _LIKE[second.kind]:
        return None
    if not {_Kind.LABEL, _Kind.WORD} & {first.kind, second.kind}:
        return None
    if first.figure and second.figure and first.figure != second.figure:
        return False
    return first.text == second.text


def _read(answer: str) -> _Name | None:
    figure = ""
    if found := _FIGURE.match(plain := _plain(answer)):
        said = found["sign"] or found["word"]
        figure, plain = _SAME_FIGURE.get(said, said), plain[found.end() :]
    text = _SPACE.sub("", plain)
    if _CAPITALS.fullmatch(text):
        is_label = figure or _LABEL.fullmatch(text)
        return _Name(text, _Kind.LABEL if is_label else _Kind.CAPITALS, figure)
    if _TITLE.fullmatch(text):
        return _Name(text.casefold(), _Kind.WORD)
    if TEXT.fullmatch(answer.strip()) and _MARKED.fullmatch(text):
        return _Name(text.casefold(), _Kind.WORD)
    return _Name(text, _Kind.LETTERS) if _LETTERS.fullmatch(text) else None


def _plain(answer: str) -> str:
    for _ in range(WRAPPED):
        answer = TEXT.sub(r" \1 ", answer)
    return answer.strip()
