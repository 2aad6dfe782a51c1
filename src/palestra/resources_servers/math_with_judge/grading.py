"""Grades one answer against the expected one. Runs in worker processes, where it can be killed.

    grade(expected, text)  ->  [verdict, extracted answer or None]

Verdicts: `correct`, `different`, `no_answer` (nothing there that could be an answer), `too_long`
(a box of more than 10,000 characters), and `bad_expected`: the row's own answer is nothing that
an answer could equal.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from palestra.resources_servers.math_with_judge import library, remarks, spelling, units
from palestra.resources_servers.math_with_judge.boxes import LONGEST_ANSWER, find_answers
from palestra.resources_servers.math_with_judge.names import same_name

CORRECT: Final = "correct"
DIFFERENT: Final = "different"
NO_ANSWER: Final = "no_answer"
TOO_LONG: Final = "too_long"
BAD_EXPECTED: Final = "bad_expected"

LONGEST_SHOWN: Final = 2_000
"""Characters of `extracted_answer` that are reported."""

_COMMAND = re.compile(r"\\(?:[dtc]?frac|sqrt|cdot|times|div|left|right|pi)(?![A-Za-z])")
_LETTER = re.compile(r"[^\W\d_]|\\circ")

_WARM_UP: Final = (
    (r"\frac{333}{1997}", r"\frac{83}{499}"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\left[0,\sqrt{2}\right)", r"[0,\sqrt2)"),
    (r"\{1,2,3\}", "3,2,1"),
    (r"\begin{pmatrix}1&0\\0&1\end{pmatrix}", r"\begin{bmatrix}1&0\\0&1\end{bmatrix}"),
    (r"x\le 3", r"(-\infty,3]"),
    (r"2\sin\theta\cos\theta", r"\sin 2\theta"),
    (r"28\%", "0.28"),
    (r"1,000\text{ cm}", r"1000"),
    (r"\text{Evelyn}", "Evelyn"),
    ("3.14159", r"\pi"),
)

_MOD = re.compile(
    r"(?:(?P<pmod>\\pmod)|\\[bm]?mod|\\(?:text|mathrm|operatorname)\s*\{\s*mod\s*\}|\bmod)"
    r"(?![A-Za-z])"
)
_EQUIVALENT = re.compile(r"\\equiv(?![A-Za-z])|≡")
_BLANK = re.compile(r"\\[,;: ]|[~\s]|\\q?quad(?![A-Za-z])")

_HALF_S: Final = 12 * 3600
_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?(?: ?([ap])\.? ?m\.?)?")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


@dataclass(frozen=True, slots=True)
class Congruence:
    r"""A residue: `2 \pmod 3`, `x \equiv 2 (mod 3)`. The library reads products and sums there."""

    name: str
    """Left of the sign; empty when there is none."""
    residue: str
    modulus: str


def congruence(answer: str) -> Congruence | None:
    r"""An answer that states a modulus. `7 \bmod 3` is a number, and states none."""
    found = list(_MOD.finditer(answer)) if "mod" in answer else []
    if len(found) != 1:
        return None
    mod = found[0]
    left, modulus = (_BLANK.sub("", side) for side in (answer[: mod.start()], answer[mod.end() :]))
    sides = _EQUIVALENT.split(left)
    is_bracketed = left.endswith("(") and modulus.endswith(")")
    if not (mod["pmod"] or is_bracketed or len(sides) > 1):
        return None
    name = sides[0] if len(sides) == 2 else ""
    residue, modulus = sides[-1].removesuffix("("), modulus.strip("{}()")
    return Congruence(name, residue, modulus) if residue and modulus else None


def same_residue(one: Congruence, other: Congruence) -> bool | None:
    """Whether whole numbers are in one class; None when they are not whole numbers."""
    if one.modulus != other.modulus:
        return None
    try:
        modulus, first, second = map(int, (one.modulus, one.residue, other.residue))
    except ValueError:
        return None
    return modulus != 0 and (first - second) % modulus == 0


def warm_up() -> None:
    """Fill the parser's tables and import what sympy imports late, once for all workers."""
    for expected, given in _WARM_UP:
        grade(expected, rf"\boxed{{{given}}}")
    grade("5", "So the final answer is $5$. I hope it is correct, or 5/1.")


def check_expected(expected: str) -> bool:
    """Whether an expected answer can be compared with so plain a one as 1, within the limit."""
    for item in _read_expected(expected):
        library.equal(library.read(item)[0], library.read("1")[0])
    return True


def grade(expected: str, text: str) -> list[str | None]:
    """What the answer in a model's text is worth."""
    wanted = [item for item in _read_expected(expected) if item]
    if not wanted:
        return [BAD_EXPECTED, None]
    answers = find_answers(text)
    if not answers.readings:
        return _grade_found(wanted, answers.tail)
    if len(answers.readings[0]) > LONGEST_ANSWER:
        return [TOO_LONG, None]
    readings = [reading for reading in answers.readings if len(reading) <= LONGEST_ANSWER]
    return _grade_readings(wanted, readings)


def _grade_readings(wanted: Sequence[str], readings: Sequence[str]) -> list[str | None]:
    shown: str | None = None
    for reading in readings:
        equal, extracted = _compare(wanted, reading)
        if equal:
            return [CORRECT, extracted]
        shown = shown or extracted
    return [DIFFERENT if shown else NO_ANSWER, shown]


def _read_expected(expected: str) -> Sequence[str]:
    """How a row spells it: with or without a box, with or without dollar signs."""
    boxed = find_answers(expected).readings
    return [reading for item in boxed or (expected,) for reading in spelling.readings(item)]


def _compare(wanted: Sequence[str], reading: str) -> tuple[bool, str | None]:
    """Whether a reading is one of those wanted; and how it is shown."""
    first: str | None = None
    for given in spelling.readings(reading):
        expression, normal = library.read(given)
        shown = _shown(expression, normal)
        if shown and any(_equal(item, given, expression, normal) for item in wanted):
            return True, shown
        first = first or shown
    return False, first


def _equal(wanted: str, given: str, expression: Any | None, normal: str) -> bool:
    said, meant = spelling.words(given), spelling.words(wanted)
    if said == meant != "":
        return True
    for decided in (_same_option, same_name, same_moment, _same_congruence):
        if (same := decided(wanted, given)) is not None:
            return same
    if _contradict(wanted, given) or (spelling.are_words(said) and spelling.are_words(meant)):
        return False
    expected, expected_normal = library.read(wanted)
    if _is_false(given, expression) and not _is_false(wanted, expected):
        return False
    return normal == expected_normal != "" or library.equal(expected, expression)


def _same_option(wanted: str, given: str) -> bool | None:
    chosen, expected = spelling.option(given), spelling.option(wanted)
    return chosen == expected if chosen and expected else None


def _same_congruence(wanted: str, given: str) -> bool | None:
    """Where one side alone states a modulus, the residues are compared."""
    expected, found = congruence(wanted), congruence(given)
    if expected is None and found is None:
        return None
    if expected is not None and found is not None:
        return _both_congruent(expected, found)
    return _same_value(
        wanted if expected is None else expected.residue, given if found is None else found.residue
    )


def _both_congruent(expected: Congruence, found: Congruence) -> bool:
    if expected.name and found.name and expected.name != found.name:
        return False
    if (same := same_residue(expected, found)) is not None:
        return same
    return _same_value(expected.modulus, found.modulus) and _same_value(
        expected.residue, found.residue
    )


def _same_value(wanted: str, given: str) -> bool:
    return library.equal(library.read(wanted)[0], library.read(given)[0])


def _contradict(wanted: str, given: str) -> bool:
    """Whether they say that they are not the same, in a way that the library does not read."""
    bases = {spelling.base_of(wanted), spelling.base_of(given)} - {""}
    return (
        units.differ(wanted, given)
        or len(bases) > 1
        or remarks.denies(wanted) != remarks.denies(given)
        or remarks.bounds(wanted) != remarks.bounds(given)
        or remarks.primed_differently(wanted, given)
    )


def _is_false(answer: str, expression: Any | None) -> bool:
    """Whether it equates numbers that are not equal. With units they may be."""
    return not _LETTER.search(_COMMAND.sub("", answer)) and library.contradicts_itself(expression)


def _grade_found(wanted: Sequence[str], text: str) -> list[str | None]:
    found = library.find(text) if text else []
    if not found:
        return [NO_ANSWER, None]
    read = [item for reading in wanted for item in library.read(reading)]
    equal = any(library.equal(item, other) for item in read for other in found)
    named = found[-1] if isinstance(found[-1], str) else ""
    if not remarks.is_denied(named, text):
        return [CORRECT if equal else DIFFERENT, _shown(found[0], "")]
    if instead := remarks.corrected(named, text):
        return _grade_found(wanted, instead)
    return [DIFFERENT, _shown(found[0], "")]


def _shown(expression: Any | None, text: str) -> str | None:
    if expression is None:
        return text[:LONGEST_SHOWN].encode("utf-8", "replace").decode() or None
    try:
        shown = str(expression)
    except MemoryError:
        raise
    except Exception:  # a number of thousands of digits; a tower; a printer's own bug
        shown = text
    return shown[:LONGEST_SHOWN].encode("utf-8", "replace").decode() or None


def same_moment(one: str, other: str) -> bool | None:
    """Whether two times, or two dates, are the same; None when they are none.

    The library reads them as numbers, ratios and differences. A time that does not say which half of the day it is in may be in either.
    """
    first, second = _plain(one), _plain(other)
    if (date := _same_date(first, second)) is not None:
        return date
    if not (_says_half(first) or _says_half(second)):
        return None
    times, others = _seconds(first), _seconds(second)
    return None if times is None or others is None else bool(times & others)


def _plain(answer: str) -> str:
    return spelling.words(answer.replace("{:}", ":"))


def _same_date(first: str, second: str) -> bool | None:
    dates = [_date(first), _date(second)]
    if all(dates):
        return dates[0] == dates[1]
    # A difference of numbers has no leading zeros.
    surely = [found for found in dates if found and "0" in {found[1][0], found[2][0]}]
    return False if surely else None


def _date(text: str) -> tuple[str, str, str] | None:
    found = _DATE.fullmatch(text)
    if not found or not (1 <= int(found[2]) <= 12 and 1 <= int(found[3]) <= 31):
        return None
    return found[1], found[2], found[3]


def _says_half(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return bool(found and found[4])


def _seconds(text: str) -> AbstractSet[int] | None:
    """Seconds of the day that a text may mean; None when it is no time."""
    found = _TIME.fullmatch(text)
    if not found:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour > 24 or minute > 59 or second > 59 or (found[4] and not 1 <= hour <= 12):
        return None
    past = minute * 60 + second
    early = hour % 12 * 3600 + past
    if found[4]:
        return {early + _HALF_S * (found[4] == "p")}
    # After 12 it is clear by itself; 12:30 and 3:30 are not.
    return {hour % 24 * 3600 + past} if hour > 12 or hour == 0 else {early, early + _HALF_S}
