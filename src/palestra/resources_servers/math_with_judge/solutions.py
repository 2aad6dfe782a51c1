"""Compare solutions with named parts (`x=5, y=3` and `(x,y)=(5,3)`), and reject other equations.

math-verify would take the right side of any equation as the answer, and named parts as a set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from latex2sympy2_extended.logic import And
from latex2sympy2_extended.sets import FiniteSet
from sympy import Add, Eq, Interval, MatrixBase, Mul, Pow, Symbol, Tuple
from sympy.core.function import AppliedUndef


def same_solution(expected: Any, actual: Any, same: Callable[[Any, Any], bool]) -> bool | None:
    """Whether both answers have the same values by name; None when neither names its values.

    Values without names are matched in the order in which the other answer lists its names.
    """
    expected_values, actual_values = _values_by_name(expected), _values_by_name(actual)
    if expected_values is not None and actual_values is not None:
        return expected_values.keys() == actual_values.keys() and all(
            same(value, actual_values[name]) for name, value in expected_values.items()
        )
    if expected_values is not None:
        values = _values(actual)
        # Roots are numbered as one likes.
        if values is None or (_are_numbered(expected_values) and isinstance(actual, FiniteSet)):
            return None
        return _all_same(list(expected_values.values()), values, same)
    values = _values(expected)
    if actual_values is None or values is None or isinstance(expected, FiniteSet):
        return None
    return not _is_backwards(list(actual_values)) and _all_same(
        values, list(actual_values.values()), same
    )


def is_other_equation(expected: Any, actual: Any) -> bool:
    """Whether the answer is an equation about something other than the expected value."""
    if _is_equation(expected):
        return False
    if isinstance(actual, FiniteSet):
        return not any(map(_is_equation, getattr(expected, "args", ()))) and any(
            _is_equation(item) and not _is_of_value(_left_side_of(item)) for item in actual.args
        )
    return _is_equation(actual) and not _is_of_value(_left_side_of(actual))


def as_values(first: Any, second: Any) -> tuple[Any, Any]:
    """Turn a column matrix and a tuple into two tuples; return any other pair unchanged."""
    for matrix, values in ((first, _values(second)), (second, _values(first))):
        if isinstance(matrix, MatrixBase) and 1 in matrix.shape and values is not None:
            column, values_row = Tuple(*matrix), Tuple(*values)
            if isinstance(second, Interval | Tuple):
                return column, values_row
            if isinstance(first, Interval | Tuple):
                return values_row, column
    return first, second


def _all_same(
    expected: Sequence[Any], actual: Sequence[Any], same: Callable[[Any, Any], bool]
) -> bool:
    return len(expected) == len(actual) and all(map(same, expected, actual))


def _values_by_name(expression: Any) -> Mapping[str, Any] | None:
    """Return two or more values by their names, in the written order; None for any other
    expression.
    """
    if isinstance(expression, FiniteSet | Tuple):
        items = list(getattr(expression, "_unsorted_args", expression.args))
        if not all(
            _is_equation(item) and isinstance(_left_side_of(item), Symbol) for item in items
        ):
            return None
        pairs = [(_left_side_of(item).name, _right(item)) for item in items]
    elif isinstance(expression, Eq) and isinstance(expression.lhs, Tuple):
        names, values = list(expression.lhs), _values(expression.rhs) or []
        if len(names) != len(values) or not all(isinstance(name, Symbol) for name in names):
            return None
        pairs = [(name.name, value) for name, value in zip(names, values, strict=True)]
    else:
        return None
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) > 1 else None


def _values(expression: Any) -> Sequence[Any] | None:
    """Return the unnamed values of a tuple, a set or a vector, in the written order.

    None when the values have names, or when it is another expression.
    """
    if isinstance(expression, Interval):
        is_pair = bool(expression.left_open and expression.right_open)
        return [expression.start, expression.end] if is_pair else None
    if isinstance(expression, MatrixBase):
        return list(expression) if 1 in expression.shape else None
    if not isinstance(expression, FiniteSet | Tuple):
        return None
    items = list(getattr(expression, "_unsorted_args", expression.args))
    return None if any(map(_is_equation, items)) else items


def _are_numbered(names: Mapping[str, Any]) -> bool:
    return len({name.partition("_")[0] for name in names}) == 1


def _is_backwards(names: Sequence[str]) -> bool:
    """Whether one-letter names are neighbours in the alphabet but not in its order: `(b,a)`."""
    if any(len(name) != 1 for name in names):
        return False
    letters = sorted(map(ord, names))
    return letters[-1] - letters[0] == len(letters) - 1 and list(map(ord, names)) != letters


def _is_equation(expression: Any) -> bool:
    if isinstance(expression, And):
        return all(isinstance(item, Eq) for item in expression.args)
    return isinstance(expression, Eq)


def _left_side_of(equation: Any) -> Any:
    first = equation._unsorted_args[0] if isinstance(equation, And) else equation  # noqa: SLF001
    return first.lhs


def _right(equation: Any) -> Any:
    last = equation._unsorted_args[-1] if isinstance(equation, And) else equation  # noqa: SLF001
    return last.rhs


def _is_of_value(left_side: Any) -> bool:
    """Whether the left side of an equation can name a value.

    It can be a name, a function's value, another form of a number, or a sum or product of several
    names (`a+2b`); but not `2x`, `x+1` or `x^2`.
    """
    names = getattr(left_side, "free_symbols", set()) | _functions(left_side)
    if not isinstance(left_side, Add | Mul | Pow) or not names:
        return True
    has_number = any(item.is_number for item in left_side.args)
    return (
        len(names) > 1 and not has_number and all(power.exp == -1 for power in left_side.atoms(Pow))
    )


def _functions(expression: Any) -> set[Any]:
    return set(expression.atoms(AppliedUndef)) if hasattr(expression, "atoms") else set()
