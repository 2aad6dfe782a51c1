"""Read remarks about a value that math-verify ignores: denials, bounds, primes."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from palestra.resources_servers.math_with_judge.spelling import TEXT, words

_DENIAL = re.compile(r"\b(?:not|no|never|wrong|incorrect|false|isn't|cannot)\b")
_ASIDE = re.compile(r"\bnot\s+[$\\(]*[-+]?\d[\d.,/]*[)$\s]*$")
r"""Matches a denial of another value: `17 \text{ (not 18)}`."""

_FILLING = (
    r"(?:\s+(?:be|equal|equals|to|the|a|an|number|value|answer|is|exactly|simply|really|actually))*"
)
_DENIED_BEFORE = re.compile(
    rf"(?:\b(?:not|never|cannot|neither|nor|isn't|isn\u2019t|can't|can\u2019t|wasn't){_FILLING})"
    r"[\s:$\\(\[{*=]*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"[\s$\\)\]}*.,]*\s(?:is|was|would\s+be|seems|looks)\s+(?:surely\s+|clearly\s+|definitely\s+)?"
    r"(?:wrong|incorrect|false|not\s+(?:(?:the|my|our|a|correct|right|final|true|actual)\s+)*"
    r"(?:answer|solution|result|value|correct|right|true|it)\b)",
    re.IGNORECASE,
)
_BUT = re.compile(r"[\s$\\)\]}*,;:]*but\b", re.IGNORECASE)

_BOUNDS: Final = {
    "at least": r"\bor (?:more|greater|above|higher|larger)\b|\bat least\b|\b(?:no|not) (?:less|fewer) than\b",
    "at most": r"\bor (?:less|fewer|below|lower|smaller)\b|\bat most\b|\b(?:no|not) more than\b",
    "more": r"(?<!no )(?<!not )\b(?:more|greater|larger|higher) than\b",
    "less": r"(?<!no )(?<!not )\b(?:less|fewer|smaller|lower) than\b",
}

_PRIMED = re.compile(r"([A-Za-z]|\\[a-z]+|[)}\]])\s*('+)(?!s\b)")


def denies(answer: str) -> bool:
    r"""Whether the words of an answer deny its value, as in `3 \text{ is wrong}`."""
    for text in TEXT.finditer(answer):
        remark = text[1].casefold()
        if re.search(r"\w", answer[: text.start()]):
            remark = _ASIDE.sub("", remark)
        if _DENIAL.search(remark):
            return True
    return False


def is_denied(value: str, text: str) -> bool:
    """Whether a text denies a value at the last place where it names the value."""
    if not value:
        return False
    before, after = _around(value, text)
    return bool(_DENIED_BEFORE.search(before[-200:]) or _DENIED_AFTER.match(after[:200]))


def corrected(value: str, text: str) -> str:
    """Return the text from the "but" after a denied value; empty when there is no "but"."""
    _, after = _around(value, text)
    return after if _BUT.match(after) else ""


def _around(value: str, text: str) -> tuple[str, str]:
    """Return the text before and after the last place of a value, where it is not part of a number."""
    matches = re.finditer(rf"(?<![\d.]){re.escape(value)}(?!\d|\.\d)", text)
    last = max((match.span() for match in matches), default=(0, 0))
    return text[: last[0]], text[last[1] :]


def bounds(answer: str) -> AbstractSet[str]:
    r"""Return the bounds that the words of an answer state, like `at least` for `5 \text{ or more}`."""
    answer_words = words(answer)
    return {name for name, form in _BOUNDS.items() if re.search(form, answer_words)}


def primed_differently(first: str, second: str) -> bool:
    """Whether two answers differ in which symbols have primes.

    Between an equation and a value, only the right side of the equation counts.
    """
    sides, others = (TEXT.sub("", answer).split("=") for answer in (first, second))
    if len(sides) == len(others):
        return _primes(sides) != _primes(others)
    return _primes(sides[-1:]) != _primes(others[-1:])


def _primes(sides: Sequence[str]) -> Sequence[AbstractSet[tuple[str, int]]]:
    return [{(base, len(marks)) for base, marks in _PRIMED.findall(side)} for side in sides]
