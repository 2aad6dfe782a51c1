r"""Compare names and labels, whose letter order counts: `CAB`, `1A3`, `\triangle ABC`, `Amy`.

math-verify reads letters as a product, in which the order does not count. Some answers stay
products: small letters not marked as text (`xy`), and capitals with a factor (`2AB`) or with a sign
between them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from palestra.resources_servers.math_with_judge.spelling import TEXT, WRAPPED

_FIGURE = re.compile(
    r"\\(?P<sign>triangle|angle|measuredangle|overline|overrightarrow|overleftrightarrow|vec|"
    r"widehat|square|Box|odot)(?![A-Za-z])|(?P<word>triangle|angle|line|segment|ray)\s+(?=[A-Z])"
)
_SAME_FIGURE: Final = {
    "measuredangle": "angle",
    "overline": "segment",
    "Box": "square",
    "overrightarrow": "vec",
}
_BETWEEN = re.compile(r"\s*(?:[,;&]|\band\b)\s*")
_SPACE = re.compile(r"[\s{}~$]|\\[,;:! ]")
_CAPITALS = re.compile(r"(?=\d*[A-Z])[0-9A-Z']{2,}")
_LABEL = re.compile(r"[A-Z']{2,}|[0-9A-Z']*[A-Z][0-9'][0-9A-Z']*")
_TITLE = re.compile(r"(?=.[a-z]*?[aeiouy])[A-Z][a-z]{2,}")
_LETTERS = re.compile(r"[a-z]{2,}")
_MARKED = re.compile(r"[A-Za-z]{2,}")


class _Kind(Enum):
    LABEL = "label"
    CAPITALS = "capitals"
    """Capitals that may be a product: `2AB`."""
    WORD = "word"
    LETTERS = "letters"
    """Small letters that may be a product."""


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
    """The kind of figure that the label names, like `triangle`; empty when not stated."""


def same_name(first_text: str, second_text: str) -> bool | None:
    """Whether two names, or two lists of names in any order, are the same.

    None when the answers are not names.
    """
    firsts, seconds = _names(first_text), _names(second_text)
    if len(firsts) != len(seconds):
        return None
    pairs = list(zip(firsts, seconds, strict=True))
    if not pairs or not all(_LIKE[first.kind] is _LIKE[second.kind] for first, second in pairs):
        return None
    if not {_Kind.LABEL, _Kind.WORD} & {name.kind for pair in pairs for name in pair}:
        return None
    return all(_same(first, second) for first, second in pairs)


def _same(first: _Name, second: _Name) -> bool:
    if first.figure and second.figure and first.figure != second.figure:
        return False
    return first.text == second.text


def _names(answer: str) -> Sequence[_Name]:
    """Return the names in an answer, sorted; empty when any part of it is not a name."""
    is_text = TEXT.fullmatch(answer.strip()) is not None
    parts = _BETWEEN.split(_plain(answer).removeprefix("\\{").removesuffix("\\}"))
    names = [_parse_name(part, is_text=is_text) for part in parts]
    known_names = [name for name in names if name is not None]
    return sorted(known_names, key=lambda name: name.text) if len(known_names) == len(parts) else ()


def _parse_name(answer: str, *, is_text: bool) -> _Name | None:
    figure = ""
    if match := _FIGURE.match(answer):
        sign = match["sign"] or match["word"]
        figure, answer = _SAME_FIGURE.get(sign, sign), answer[match.end() :]
    text = _SPACE.sub("", answer)
    if _CAPITALS.fullmatch(text):
        is_label = figure or _LABEL.fullmatch(text)
        return _Name(text, _Kind.LABEL if is_label else _Kind.CAPITALS, figure)
    if _TITLE.fullmatch(text) or (is_text and _MARKED.fullmatch(text)):
        return _Name(text.casefold(), _Kind.WORD)
    return _Name(text, _Kind.LETTERS) if _LETTERS.fullmatch(text) else None


def _plain(answer: str) -> str:
    for _ in range(WRAPPED):
        answer = TEXT.sub(r" \1 ", answer)
    return answer.strip()
