"""Grades one answer against the expected one. Runs in worker processes, where it can be killed.

    grade(expected, text)  ->  [verdict, extracted answer or None]

Verdicts: `correct`, `different`, `no_answer` (nothing there that could be an answer), `too_long`
(a box of more than 10,000 characters), and `bad_expected`: the row's own answer is nothing that
an answer could equal.
"""

from collections.abc import Sequence
from typing import Any, Final

from palestra.resources_servers.math_with_judge import library, spelling, units
from palestra.resources_servers.math_with_judge.boxes import LONGEST_ANSWER, find_answers

CORRECT: Final = "correct"
DIFFERENT: Final = "different"
NO_ANSWER: Final = "no_answer"
TOO_LONG: Final = "too_long"
BAD_EXPECTED: Final = "bad_expected"

LONGEST_SHOWN: Final = 2_000
"""Characters of `extracted_answer` that are reported."""

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
        return _grade_found(wanted[-1], library.find(answers.tail) if answers.tail else [])
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
    return [spelling.rewritten(spelling.bare(item)) for item in boxed or (expected,)]


def _compare(wanted: Sequence[str], reading: str) -> tuple[bool, str | None]:
    """Whether a reading is one of those wanted; and how it is shown."""
    given = spelling.rewritten(spelling.bare(reading))
    expression, normal = library.read(given)
    shown = _shown(expression, normal)
    if not shown:
        return False, None
    equal = any(_equal(item, given, expression, normal) for item in wanted)
    return equal, shown


def _equal(wanted: str, given: str, expression: Any | None, normal: str) -> bool:
    said, meant = spelling.words(given), spelling.words(wanted)
    chosen, expected_option = spelling.option(given), spelling.option(wanted)
    if said == meant != "":
        return True
    if chosen and expected_option:
        return chosen == expected_option
    if _contradict(wanted, given) or (spelling.are_words(said) and spelling.are_words(meant)):
        return False
    expected, expected_normal = library.read(wanted)
    return normal == expected_normal != "" or library.equal(expected, expression)


def _contradict(wanted: str, given: str) -> bool:
    """Whether they say that they are not the same, in a way that the library does not read."""
    bases = {spelling.base_of(wanted), spelling.base_of(given)} - {""}
    return (
        units.differ(wanted, given)
        or len(bases) > 1
        or spelling.denies(wanted) != spelling.denies(given)
    )


def _grade_found(wanted: str, found: Sequence[Any]) -> list[str | None]:
    if not found:
        return [NO_ANSWER, None]
    expected, normal = library.read(wanted)
    equal = any(library.equal(item, other) for item in (normal, expected) for other in found)
    return [CORRECT if equal else DIFFERENT, _shown(found[0], "")]


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
