r"""Find numbers that are too large to compute: towers of powers, factorials, `\binom{10^9}{10^8}`.

sympy computes every number that it reads: `9**9**9**9` would use all time and memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log10
from typing import Final

MOST_DIGITS: Final = 1_000_000
"""The most digits of a number that is computed."""

_TOO_LARGE: Final = 4 * MOST_DIGITS
"""A number that is too large as an exponent of any base."""
_MOST_LEVELS: Final = 8

_MOST_FACTORIAL: Final = 200_000
"""The largest number whose factorial is computed; it has about `MOST_DIGITS` digits."""
_MOST_OBJECTS: Final = 100_000
"""A binomial coefficient is too large when it chooses more than `_MOST_CHOSEN` from more objects
than this."""
_MOST_CHOSEN: Final = 1000
"""A binomial coefficient of more than `_MOST_OBJECTS` objects is too large when it chooses more
than this."""

_TOKEN = re.compile(
    r"(?P<numeral>\d+)|(?P<power>\*\*|\^)|(?P<open>[({])|(?P<close>[)}])|"
    r"(?P<factorial>(?<!\\)!)|(?P<other>\S)"
)
_GROUP: Final = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_BINOMIAL = re.compile(
    rf"\\[dt]?binom\s*{_GROUP}\s*{_GROUP}|\{{([^{{}}]*)\\choose(?![A-Za-z])([^{{}}]*)\}}"
)
_POWER = re.compile(r"(\d+)(?:\s*\^\s*\{?\s*(\d+))?")
_FACTORIALS = re.compile(r"\d[\s)}]*(?:![\s)}]*){3,}")


def end_of_tower(text: str) -> int | None:
    """Return the position where the last too large number in a text ends; None when there is none."""
    ends = [match.end() for match in _FACTORIALS.finditer(text)]
    ends += [match.end() for match in _BINOMIAL.finditer(text) if _is_too_wide(match)]
    if "^" in text or "**" in text or "!" in text:
        ends += _ends_of_powers(text)
    return max(ends, default=None)


@dataclass(slots=True)
class _Chain:
    """A chain of powers: each number is the exponent of the one before. None for an unknown number."""

    numbers: list[int | None] = field(default_factory=list)
    goes_on: bool = False
    """Whether the last token was a power sign."""
    is_alone: bool = True
    """Whether the chain is the only content of its brackets."""

    def add(self, number: int | None) -> None:
        if not self.goes_on:
            self.is_alone = self.is_alone and not self.numbers
            self.numbers = []
        self.numbers.append(number)
        self.goes_on = False

    def multiply_out(self) -> None:
        """Apply a factorial sign: end the chain, or mark it as too large if its last number is too
        large.
        """
        is_large = bool(self.numbers) and (self.numbers[-1] or 0) > _MOST_FACTORIAL
        self.end()
        if is_large:
            self.numbers = [_TOO_LARGE, _TOO_LARGE]

    def end(self) -> None:
        self.numbers, self.goes_on, self.is_alone = [], False, False


def _ends_of_powers(text: str) -> list[int]:
    ends: list[int] = []
    open_ones = [_Chain()]
    for token in _TOKEN.finditer(text):
        chain = open_ones[-1]
        match token.lastgroup:
            case "numeral":
                chain.add(_capped(token[0]))
            case "factorial":
                chain.multiply_out()
            case "power":
                chain.goes_on = bool(chain.numbers)
            case "open":
                open_ones.append(_Chain())
                continue
            case "close" if len(open_ones) > 1:
                inner, chain = open_ones.pop(), open_ones[-1]
                chain.add(_value(inner.numbers) if inner.is_alone else None)
            case _:
                chain.end()
        if _is_too_large(chain.numbers):
            ends.append(token.end())
            chain.numbers = [_TOO_LARGE + 1]
    # A bracket that is never closed hides nothing.
    while len(open_ones) > 1:
        inner, chain = open_ones.pop(), open_ones[-1]
        chain.add(_value(inner.numbers))
        if _is_too_large(chain.numbers):
            ends.append(len(text))
    return ends


def _is_too_wide(match: re.Match[str]) -> bool:
    above, below = (_product(match[group] or match[group + 2] or "") for group in (1, 2))
    return above > _MOST_OBJECTS and below > _MOST_CHOSEN


def _product(text: str) -> int:
    """Return the approximate product of the numbers in a text, at most `_TOO_LARGE`."""
    product = 1
    for match in _POWER.finditer(text):
        value = _value([_capped(match[1]), _capped(match[2])] if match[2] else [_capped(match[1])])
        product = min(product * max(value or 1, 1), _TOO_LARGE)
    return product


def _is_too_large(numbers: Sequence[int | None]) -> bool:
    return len(numbers) > 1 and (len(numbers) > _MOST_LEVELS or _value(numbers) == _TOO_LARGE + 1)


def _value(numbers: Sequence[int | None]) -> int | None:
    """Return the value of a chain of powers; `_TOO_LARGE + 1` when it is too large to compute."""
    if not numbers:
        return None
    value = numbers[-1]
    for base in reversed(numbers[:-1]):
        if value is None or (base is None and value <= _TOO_LARGE):
            return None
        if base is not None and (base < 2 or value == 0):
            value = base if value else 1
        elif base is None or max(base, value) > _TOO_LARGE or value * log10(base) > MOST_DIGITS:
            value = _TOO_LARGE + 1
        else:
            value = min(base**value, _TOO_LARGE)
    return value


def _capped(numeral: str) -> int:
    digits = numeral.lstrip("0")
    return min(int(digits or 0), _TOO_LARGE) if len(digits) < 10 else _TOO_LARGE
