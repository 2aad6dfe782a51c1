"""Powers of powers that are too large to be worked out, found before anything tries.

sympy works out what it reads: `9**9**9**9` would take all time and memory there is.
"""

import re
from math import log10
from typing import Final

MOST_DIGITS: Final = 1_000_000
"""Of a number that is worked out."""

_CHAIN = re.compile(r"(?<!\d)\d++(?:\s*+(?:\*\*|\^)[\s{(]*+\d++)+")
_FACTORIALS = re.compile(r"\d[\s)}]*(?:![\s)}]*){3,}")
_LARGEST_EXPONENT: Final = 4 * MOST_DIGITS


def end_of_tower(text: str) -> int | None:
    """Where the last such number in a text ends; None when it has none."""
    ends = [found.end() for found in _CHAIN.finditer(text) if _is_too_large(found[0])]
    ends += [found.end() for found in _FACTORIALS.finditer(text)]
    return max(ends, default=None)


def _is_too_large(chain: str) -> bool:
    """Whether numerals, each the exponent of the one before, make a number of too many digits."""
    numerals = re.findall(r"\d+", chain)
    value = _capped(numerals.pop())
    for numeral in reversed(numerals):
        base = _capped(numeral)
        if base < 2 or value == 0:
            value = base if value else 1
        elif value >= _LARGEST_EXPONENT or value * log10(base) > MOST_DIGITS:
            return True
        else:
            value = min(base**value, _LARGEST_EXPONENT)
    return False


def _capped(numeral: str) -> int:
    digits = numeral.lstrip("0")
    return min(int(digits or 0), _LARGEST_EXPONENT) if len(digits) < 10 else _LARGEST_EXPONENT
