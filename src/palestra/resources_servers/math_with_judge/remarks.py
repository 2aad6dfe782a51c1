r"""What an answer says about its value that the library drops: denials, bounds, primes."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from palestra.resources_servers.math_with_judge.spelling import TEXT, words

_DENIAL = re.compile(r"\b(?:not|no|never|wrong|incorrect|false|isn't|cannot)\b")
_ASIDE = re.compile(r"\bnot\s+[$\\(]*[-+]?\d[\d.,/]*[)$\s]*$")
"""`17 \text{ (not 18)}`: what is denied is something else."""

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
    r"""Whether its words say that something is not so, as in `3 \text{ is wrong}`."""
    for text in TEXT.finditer(answer):
        said = text[1].casefold()
        if re.search(r"\w", answer[: text.start()]):
            said = _ASIDE.sub("", said)
        if _DENIAL.search(said):
            return True
    return False


def is_denied(value: str, text: str) -> bool:
    """Whether a text that names a value, last where it does so more than once, denies it there."""
    if not value:
        return False
    before, after = _around(value, text)
    return bool(_DENIED_BEFORE.search(before[-200:]) or _DENIED_AFTER.match(after[:200]))


def corrected(value: str, text: str) -> str:
    """What a text that denies a value says instead, from its "but" on; empty when it does not."""
    _, after = _around(value, text)
    return after if _BUT.match(after) else ""


def _around(value: str, text: str) -> tuple[str, str]:
    """The text before and after a value, where it stands last and is no part of a number."""
    places = re.finditer(rf"(?<![\d.]){re.escape(value)}(?!\d|\.\d)", text)
    last = max((place.span() for place in places), default=(0, 0))
    return text[: last[0]], text[last[1] :]


def bounds(answer: str) -> AbstractSet[str]:
    r"""What its words make of its value, `at least` in `5 \text{ or more}`."""
    said = words(answer)
    return {name for name, form in _BOUNDS.items() if re.search(form, said)}


def primed_differently(one: str, other: str) -> bool:
    """Whether other symbols have primes. Of an equation and a value the right side alone counts."""
    sides, others = (TEXT.sub("", answer).split("=") for answer in (one, other))
    if len(sides) == len(others):
        return _primes(sides) != _primes(others)
    return _primes(sides[-1:]) != _primes(others[-1:])


def _primes(sides: Sequence[str]) -> Sequence[AbstractSet[tuple[str, int]]]:
    return [{(base, len(marks)) for base, marks in _PRIMED.findall(side)} for side in sides]
