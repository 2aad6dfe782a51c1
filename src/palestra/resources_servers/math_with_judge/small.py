"""Compare decimals near zero by their digits. math-verify would round them to zero."""

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
"""Numbers below this are near zero: six decimal places are too few for them."""
_APART: Final = 5e-6
"""The relative difference that is allowed: six significant digits."""
_DIGITS: Final = 20
_PERCENT: Final = UnevaluatedExpr(Rational(1, 100))


def differ_near_zero(first_value: Any, second_value: Any) -> bool:
    """Whether two answers have numbers near zero, written as decimals, that differ."""
    return any(_are_apart(first, second) for first, second in _paired(first_value, second_value))


def _paired(first_value: Any, second_value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of numbers to compare, one from each answer."""
    firsts, seconds = _parts(first_value), _parts(second_value)
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
        pairs_known = [pair for pair in values if pair[0] is not None]
        return [item for _, item in sorted(pairs_known, key=lambda pair: pair[0])]
    return [expression]


def _are_apart(first_value: Any, second_value: Any) -> bool:
    if not any(isinstance(item, Expr) and item.has(Float) for item in (first_value, second_value)):
        return False
    first, second = _value(first_value), _value(second_value)
    if first is None or second is None:
        return False
    # 5% is 0.05 or 5.
    firsts = [first, first * 100] if first_value.has(_PERCENT) else [first]
    seconds = [second, second * 100] if second_value.has(_PERCENT) else [second]
    return all(_is_apart(value, rival) for value in firsts for rival in seconds)


def _is_apart(first_value: Any, second_value: Any) -> bool:
    smaller, larger = sorted((abs(first_value), abs(second_value)))
    return bool(smaller < SMALL and abs(first_value - second_value) > _APART * larger)


def _value(expression: Any) -> Any:
    """Return the value of a real number from its written digits; None for any other expression."""
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
