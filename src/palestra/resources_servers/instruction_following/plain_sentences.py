"""Sentences by a few rules about periods: the second way in which published checkers split text.

Instructions on the first or last word of each sentence use these; those that count sentences use
`sentences.py`. Line breaks end none.
"""

import re
from typing import Final

_DOT: Final = "\ue000"
"""Stands for a period that ends no sentence."""
_END: Final = "\ue001"

_LETTER: Final = "([A-Za-z])"
_STARTERS: Final = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever)"
)
_SUFFIXES: Final = "(Inc|Ltd|Jr|Sr|Co)"

_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(Mr|St|Mrs|Ms|Dr)[.]", rf"\1{_DOT}"),
        (r"[.](com|net|org|io|gov|edu|me)", rf"{_DOT}\1"),
        (r"([0-9])[.]([0-9])", rf"\1{_DOT}\2"),
    )
)
_AFTER_ELLIPSES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"Ph\.D\.", f"Ph{_DOT}D{_DOT}"),
        (rf"\s{_LETTER}[.] ", rf" \1{_DOT} "),
        (rf"([A-Z][.][A-Z][.](?:[A-Z][.])?) {_STARTERS}", rf"\1{_END} \2"),
        (rf"{_LETTER}[.]{_LETTER}[.]{_LETTER}[.]", rf"\1{_DOT}\2{_DOT}\3{_DOT}"),
        (rf"{_LETTER}[.]{_LETTER}[.]", rf"\1{_DOT}\2{_DOT}"),
        (rf" {_SUFFIXES}[.] {_STARTERS}", rf" \1{_END} \2"),
        (rf" {_SUFFIXES}[.]", rf" \1{_DOT}"),
        (rf" {_LETTER}[.]", rf" \1{_DOT}"),
        ("\\.”", "”."),
        (r'\."', '".'),
        (r'!"', '"!'),
        (r'\?"', '"?'),
        (r"[.?!]", rf"\g<0>{_END}"),
    )
)
_DOTS: Final = re.compile(r"\.{2,}")


def plain_sentences(text: str) -> list[str]:
    """The sentences of `text`, stripped; without a last one that is empty."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _DOTS.sub(lambda dots: _DOT * len(dots[0]) + _END, text)
    for pattern, replacement in _AFTER_ELLIPSES:
        text = pattern.sub(replacement, text)
    sentences = [part.strip() for part in text.replace(_DOT, ".").split(_END)]
    return sentences if sentences[-1] else sentences[:-1]
