"""Grade one answer against the expected one. Runs in worker processes, which can be killed.

    grade(expected, text)  ->  [verdict, extracted answer or None]

Verdicts: `correct`, `different`, `no_answer` (the text has no possible answer), `too_long` (a box
of more than 10,000 characters), and `bad_expected` (the row's own answer can equal no answer).
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
"""The number of characters of `extracted_answer` that are reported."""

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
    r"""A residue: `2 \pmod 3`, `x \equiv 2 (mod 3)`. math-verify would read a product or a sum
    instead.
    """

    name: str
    """The part left of the equivalence sign; empty when there is no sign."""
    residue: str
    modulus: str


def congruence(answer: str) -> Congruence | None:
    r"""Parse an answer that states a modulus; None for any other. `7 \bmod 3` is a number, so None."""
    moduli = list(_MOD.finditer(answer)) if "mod" in answer else []
    if len(moduli) != 1:
        return None
    mod = moduli[0]
    before, modulus = (
        _BLANK.sub("", side) for side in (answer[: mod.start()], answer[mod.end() :])
    )
    sides = _EQUIVALENT.split(before)
    is_bracketed = before.endswith("(") and modulus.endswith(")")
    if not (mod["pmod"] or is_bracketed or len(sides) > 1):
        return None
    name = sides[0] if len(sides) == 2 else ""
    residue, modulus = sides[-1].removesuffix("("), modulus.strip("{}()")
    return Congruence(name, residue, modulus) if residue and modulus else None


def same_residue(first: Congruence, second: Congruence) -> bool | None:
    """Whether two residues are equal modulo the same whole number; None when they are not whole
    numbers.
    """
    if first.modulus != second.modulus:
        return None
    try:
        modulus, residue, other_residue = map(int, (first.modulus, first.residue, second.residue))
    except ValueError:
        return None
    return modulus != 0 and (residue - other_residue) % modulus == 0


def warm_up() -> None:
    """Fill the parser's tables and import sympy's lazy modules, once for all workers."""
    for expected, answer in _WARM_UP:
        grade(expected, rf"\boxed{{{answer}}}")
    grade("5", "So the final answer is $5$. I hope it is correct, or 5/1.")


def check_expected(expected: str) -> bool:
    """Whether an expected answer can be compared, within the limit, with a simple answer like 1."""
    for item in _read_expected(expected):
        library.equal(library.read_answer(item)[0], library.read_answer("1")[0])
    return True


def grade(expected: str, text: str) -> list[str | None]:
    """Grade the answer in a model's text. Return the verdict and the extracted answer."""
    expected_items = [item for item in _read_expected(expected) if item]
    if not expected_items:
        return [BAD_EXPECTED, None]
    answers = find_answers(text)
    if not answers.readings:
        return _grade_found(expected_items, answers.tail)
    if len(answers.readings[0]) > LONGEST_ANSWER:
        return [TOO_LONG, None]
    readings = [reading for reading in answers.readings if len(reading) <= LONGEST_ANSWER]
    return _grade_readings(expected_items, readings)


def _grade_readings(expected: Sequence[str], readings: Sequence[str]) -> list[str | None]:
    text_shown: str | None = None
    for reading in readings:
        equal, extracted = _compare(expected, reading)
        if equal:
            return [CORRECT, extracted]
        text_shown = text_shown or extracted
    return [DIFFERENT if text_shown else NO_ANSWER, text_shown]


def _read_expected(expected: str) -> Sequence[str]:
    """Return the readings of the expected answer, with or without a box and dollar signs."""
    boxed = find_answers(expected).readings
    return [reading for item in boxed or (expected,) for reading in spelling.readings(item)]


def _compare(expected: Sequence[str], reading: str) -> tuple[bool, str | None]:
    """Whether a reading equals one of the expected answers; also return the reading as text."""
    first: str | None = None
    for answer in spelling.readings(reading):
        expression, normal = library.read_answer(answer)
        text_shown = _printed_answer(expression, normal)
        if text_shown and any(_equal(item, answer, expression, normal) for item in expected):
            return True, text_shown
        first = first or text_shown
    return False, first


def _equal(expected_text: str, answer: str, expression: Any | None, normal: str) -> bool:
    words, expected_words = spelling.words(answer), spelling.words(expected_text)
    if words == expected_words != "":
        return True
    for decided in (_same_option, same_name, same_moment, _same_congruence):
        if (same := decided(expected_text, answer)) is not None:
            return same
    if _contradict(expected_text, answer) or (
        spelling.are_words(words) and spelling.are_words(expected_words)
    ):
        return False
    expected, expected_normal = library.read_answer(expected_text)
    if _is_false(answer, expression) and not _is_false(expected_text, expected):
        return False
    return normal == expected_normal != "" or library.equal(expected, expression)


def _same_option(expected_text: str, answer: str) -> bool | None:
    chosen, expected = spelling.option(answer), spelling.option(expected_text)
    return chosen == expected if chosen and expected else None


def _same_congruence(expected_text: str, answer: str) -> bool | None:
    """Compare residues. When only one side states a modulus, compare its residue with the other
    value.
    """
    expected, actual = congruence(expected_text), congruence(answer)
    if expected is None and actual is None:
        return None
    if expected is not None and actual is not None:
        return _both_congruent(expected, actual)
    return _same_value(
        expected_text if expected is None else expected.residue,
        answer if actual is None else actual.residue,
    )


def _both_congruent(expected: Congruence, actual: Congruence) -> bool:
    if expected.name and actual.name and expected.name != actual.name:
        return False
    if (same := same_residue(expected, actual)) is not None:
        return same
    return _same_value(expected.modulus, actual.modulus) and _same_value(
        expected.residue, actual.residue
    )


def _same_value(expected: str, answer: str) -> bool:
    return library.equal(library.read_answer(expected)[0], library.read_answer(answer)[0])


def _contradict(expected: str, answer: str) -> bool:
    """Whether two answers differ in something that math-verify ignores: units, bases, denials,
    bounds, primes.
    """
    bases = {spelling.base_of(expected), spelling.base_of(answer)} - {""}
    return (
        units.differ(expected, answer)
        or len(bases) > 1
        or remarks.denies(expected) != remarks.denies(answer)
        or remarks.bounds(expected) != remarks.bounds(answer)
        or remarks.primed_differently(expected, answer)
    )


def _is_false(answer: str, expression: Any | None) -> bool:
    """Whether an answer equates numbers that are not equal, like `3 = 4`. With units they may be
    equal.
    """
    return not _LETTER.search(_COMMAND.sub("", answer)) and library.contradicts_itself(expression)


def _grade_found(expected: Sequence[str], text: str) -> list[str | None]:
    items = library.find(text) if text else []
    if not items:
        return [NO_ANSWER, None]
    expected_items = [item for reading in expected for item in library.read_answer(reading)]
    equal = any(library.equal(item, item_found) for item in expected_items for item_found in items)
    last_name = items[-1] if isinstance(items[-1], str) else ""
    if not remarks.is_denied(last_name, text):
        return [CORRECT if equal else DIFFERENT, _printed_answer(items[0], "")]
    if instead := remarks.corrected(last_name, text):
        return _grade_found(expected, instead)
    return [DIFFERENT, _printed_answer(items[0], "")]


def _printed_answer(expression: Any | None, text: str) -> str | None:
    if expression is None:
        return text[:LONGEST_SHOWN].encode("utf-8", "replace").decode() or None
    try:
        printed = str(expression)
    except MemoryError:
        raise
    except Exception:  # a number of thousands of digits; a tower; a printer's own bug
        printed = text
    return printed[:LONGEST_SHOWN].encode("utf-8", "replace").decode() or None


def same_moment(first_text: str, second_text: str) -> bool | None:
    """Whether two times, or two dates, are the same; None when they are not times or dates.

    math-verify reads them as numbers, ratios and differences. A time without a.m. or p.m. may be in
    either half of the day.
    """
    first, second = _plain(first_text), _plain(second_text)
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
    surely = [date for date in dates if date and "0" in {date[1][0], date[2][0]}]
    return False if surely else None


def _date(text: str) -> tuple[str, str, str] | None:
    match = _DATE.fullmatch(text)
    if not match or not (1 <= int(match[2]) <= 12 and 1 <= int(match[3]) <= 31):
        return None
    return match[1], match[2], match[3]


def _says_half(text: str) -> bool:
    match = _TIME.fullmatch(text)
    return bool(match and match[4])


def _seconds(text: str) -> AbstractSet[int] | None:
    """Return the seconds of the day that a text may mean; None when it is not a time."""
    match = _TIME.fullmatch(text)
    if not match:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 24 or minute > 59 or second > 59 or (match[4] and not 1 <= hour <= 12):
        return None
    past = minute * 60 + second
    early = hour % 12 * 3600 + past
    if match[4]:
        return {early + _HALF_S * (match[4] == "p")}
    # After 12 it is clear by itself; 12:30 and 3:30 are not.
    return {hour % 24 * 3600 + past} if hour > 12 or hour == 0 else {early, early + _HALF_S}
