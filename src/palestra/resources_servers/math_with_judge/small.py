"""Decimals near zero, which the library rounds to zero: they are compared by their digits."""

from collections.abc import Iterator
from typing import Any, Final

from sympy import (
    Derivative,
    Eq,
    Expr,
    FiniteSet,
    Float,
    Integral,
    Interval,
    Limit,
    MatrixBase,
    Product,
    Rational,
    Sum,
    Tuple,
    UnevaluatedExpr,
)

SMALL: Final = 1e-4
"""Below it, six decimal places are too few."""
_APART: Final = 5e-6
"""By what part of the larger they may differ: six significant digits."""
_DIGITS: Final = 20
_PERCENT: Final = UnevaluatedExpr(Rational(1, 100))


def differ_near_zero(one: Any, other: Any) -> bool:
    """Whether two answers have a decimal near zero that is not the same in both."""
    return any(_are_apart(first, second) for first, second in _paired(one, other))


def _paired(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers that stand for each other."""
    firsts, seconds = _parts(one), _parts(other)
    if len(firsts) == len(seconds) == 1:
        yield firsts[0], seconds[0]
    elif len(firsts) == len(seconds):
        for first, second in zip(firsts, seconds, strict=True):
            yield from _paired(first, second)


def _parts(expression: Any) -> list[Any]:
    if isinstance(expression, Eq):
        return [expression.rhs]
    if isinstance(expression, Interval):
        return [expression.start, expression.end]
    if isinstance(expression, MatrixBase | Tuple):
        return list(expression)
    if isinstance(expression, FiniteSet):
        values = [(_value(item), item) for item in expression.args]
        known = [pair for pair in values if pair[0] is not None]
        return [item for _, item in sorted(known, key=lambda pair: pair[0])]
    return [expression]


def _are_apart(one: Any, other: Any) -> bool:
    if not any(isinstance(item, Expr) and item.has(Float) for item in (one, other)):
        return False
    first, second = _value(one), _value(other)
    if first is None or second is None:
        return False
    # 5% is 0.05 or 5.
    firsts = [first, first * 100] if one.has(_PERCENT) else [first]
    seconds = [second, second * 100] if other.has(_PERCENT) else [second]
    return all(_is_apart(value, rival) for value in firsts for rival in seconds)


def _is_apart(one: Any, other: Any) -> bool:
    smaller, larger = sorted((abs(one), abs(other)))
    return bool(smaller < SMALL and abs(one - other) > _APART * larger)


def _value(expression: Any) -> Any:
    """Of a real number, from its digits as they are written; None for whatever else."""
    if not isinstance(expression, Expr) or not expression.is_number:
        return None
    if expression.has(Integral, Sum, Product, Limit, Derivative):
        return None
    try:
        exact = expression.xreplace({item: Rational(str(item)) for item in expression.atoms(Float)})
        value = exact.doit().evalf(_DIGITS)
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return None
    return value if value.is_Number and value.is_finite else None
