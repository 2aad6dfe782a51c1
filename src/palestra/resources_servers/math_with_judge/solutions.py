"""Solutions that name their parts, `x=5, y=3` and `(x,y)=(5,3)`, and equations that are no value.

The library takes the right side of any equation for the answer, and what is named for a set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from latex2sympy2_extended.logic import And
from latex2sympy2_extended.sets import FiniteSet
from sympy import Add, Eq, Interval, MatrixBase, Mul, Pow, Symbol, Tuple
from sympy.core.function import AppliedUndef


def same_solution(expected: Any, given: Any, same: Callable[[Any, Any], bool]) -> bool | None:
    """Whether both have the same values by name; None when neither names any.

    Values without names match in the order in which the other side writes its names.
    """
    wanted, found = _named(expected), _named(given)
    if wanted is not None and found is not None:
        return wanted.keys() == found.keys() and all(
            same(value, found[name]) for name, value in wanted.items()
        )
    if wanted is not None:
        values = _values(given)
        # Roots are numbered as one likes.
        if values is None or (_are_numbered(wanted) and isinstance(given, FiniteSet)):
            return None
        return _all_same(list(wanted.values()), values, same)
    values = _values(expected)
    if found is None or values is None or isinstance(expected, FiniteSet):
        return None
    return not _is_backwards(list(found)) and _all_same(values, list(found.values()), same)


def is_other_equation(expected: Any, given: Any) -> bool:
    """Whether an equation is given, where a value is expected, that is not of that value."""
    if _is_equation(expected):
        return False
    if isinstance(given, FiniteSet):
        return not any(map(_is_equation, getattr(expected, "args", ()))) and any(
            _is_equation(item) and not _is_of_value(_left(item)) for item in given.args
        )
    return _is_equation(given) and not _is_of_value(_left(given))


def as_values(one: Any, other: Any) -> tuple[Any, Any]:
    """A column and a tuple as two tuples; whatever else as it is."""
    for matrix, values in ((one, _values(other)), (other, _values(one))):
        if isinstance(matrix, MatrixBase) and 1 in matrix.shape and values is not None:
            column, rest = Tuple(*matrix), Tuple(*values)
            if isinstance(other, Interval | Tuple):
                return column, rest
            if isinstance(one, Interval | Tuple):
                return rest, column
    return one, other


def _all_same(
    wanted: Sequence[Any], found: Sequence[Any], same: Callable[[Any, Any], bool]
) -> bool:
    return len(wanted) == len(found) and all(map(same, wanted, found))


def _named(expression: Any) -> Mapping[str, Any] | None:
    """Two values or more by their names, in the order of the names."""
    if isinstance(expression, FiniteSet | Tuple):
        items = list(getattr(expression, "_unsorted_args", expression.args))
        if not all(_is_equation(item) and isinstance(_left(item), Symbol) for item in items):
            return None
        pairs = [(_left(item).name, _right(item)) for item in items]
    elif isinstance(expression, Eq) and isinstance(expression.lhs, Tuple):
        names, values = list(expression.lhs), _values(expression.rhs) or []
        if len(names) != len(values) or not all(isinstance(name, Symbol) for name in names):
            return None
        pairs = [(name.name, value) for name, value in zip(names, values, strict=True)]
    else:
        return None
    named = dict(pairs)
    return named if len(named) == len(pairs) > 1 else None


def _values(expression: Any) -> Sequence[Any] | None:
    """Those of a tuple, or as a set is written; None when they have names or there are none."""
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
    """Whether names are neighbours in the alphabet, not in its order: `(b,a)`."""
    if any(len(name) != 1 for name in names):
        return False
    places = sorted(map(ord, names))
    return places[-1] - places[0] == len(places) - 1 and list(map(ord, names)) != places


def _is_equation(expression: Any) -> bool:
    if isinstance(expression, And):
        return all(isinstance(item, Eq) for item in expression.args)
    return isinstance(expression, Eq)


def _left(equation: Any) -> Any:
    first = equation._unsorted_args[0] if isinstance(equation, And) else equation  # noqa: SLF001
    return first.lhs


def _right(equation: Any) -> Any:
    last = equation._unsorted_args[-1] if isinstance(equation, And) else equation  # noqa: SLF001
    return last.rhs


def _is_of_value(left: Any) -> bool:
    """Whether a left side is what a value is of: a name, a function's value, a number's other
    form, or a sum or product of several of them (`a+2b`); not `2x`, `x+1` or `x^2`.
    """
    names = getattr(left, "free_symbols", set()) | _functions(left)
    if not isinstance(left, Add | Mul | Pow) or not names:
        return True
    has_number = any(item.is_number for item in left.args)
    return len(names) > 1 and not has_number and all(power.exp == -1 for power in left.atoms(Pow))


def _functions(expression: Any) -> set[Any]:
    return set(expression.atoms(AppliedUndef)) if hasattr(expression, "atoms") else set()
