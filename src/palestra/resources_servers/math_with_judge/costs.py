"""Expressions that take too long to be worked out or simplified, and how they are compared.

Simplifying multiplies out: `(x+1)^{100000}` would take the whole limit, as an integral of a tower
of powers would. Such expressions are equal when they look alike, or are so at sampled places.
"""

from typing import Any, Final

from sympy import Add, Expr, Integral, Pow, Rational

_MOST_TERMS: Final = 20
"""Of a sum's power that is multiplied out."""
_MOST_LEVELS: Final = 2
"""Of powers with variables that are integrated."""
_SAMPLES: Final = (Rational(3, 7), Rational(13, 11), Rational(-5, 13))
_DIGITS: Final = 30
_SAME: Final = Rational(1, 10**20)


def is_costly(expression: Any) -> bool:
    """Whether simplifying it would take too long."""
    if not isinstance(expression, Expr):
        return False
    if any(_is_long(power) for power in expression.atoms(Pow)):
        return True
    integrals = expression.atoms(Integral)
    return any(_levels(item) > _MOST_LEVELS for found in integrals for item in found.atoms(Pow))


def _is_long(power: Any) -> bool:
    is_sum = isinstance(power.base, Add) and bool(power.base.free_symbols)
    return is_sum and power.exp.is_number and bool(abs(power.exp) > _MOST_TERMS)


def _levels(power: Any) -> int:
    levels = 0
    while isinstance(power, Pow) and power.free_symbols:
        power, levels = power.exp, levels + 1
    return levels


def same_at_samples(one: Any, other: Any) -> bool:
    """Whether two expressions are written alike, or have the same value wherever it is tried."""
    if one == other:
        return True
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    if one.has(Integral) or other.has(Integral):
        return False
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    return all(_same_at(one, other, symbols, place) for place in range(len(_SAMPLES)))


def _same_at(one: Any, other: Any, symbols: list[Any], place: int) -> bool:
    values = {
        symbol: _SAMPLES[(place + number) % len(_SAMPLES)] + number
        for number, symbol in enumerate(symbols)
    }
    try:
        first, second = (item.evalf(_DIGITS, subs=values) for item in (one, other))
        return bool(abs(first - second) <= _SAME * max(abs(first), abs(second)))
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return False
