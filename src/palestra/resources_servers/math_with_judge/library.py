"""The only module that uses math-verify. It is imported only in worker processes.

math-verify parses LaTeX into sympy expressions and compares them. Its own time limits are off: they
use alarms, which native code does not react to. The worker's limit applies instead.

This module calls the parser below math-verify's public `parse`, for two reasons. The box is already
found, and `parse` would search its content for other answers. And ANTLR's fast prediction (`SLL`)
can be tried first: by ANTLR's documentation it gives the same tree or a syntax error, and it is
four times as fast. A test checks that the results equal those of `parse`.
"""

import logging
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended import antlr_parser
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy, normalize_latex
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from math_verify.grader import is_relation, should_treat_as_complex, unwrap_fcs
from math_verify.parser import get_last_eq
from sympy import Add, And, Equality, Expr, I, Integral, Pow, Rational

from palestra.resources_servers.math_with_judge import spelling
from palestra.resources_servers.math_with_judge.small import differ_near_zero
from palestra.resources_servers.math_with_judge.solutions import (
    as_values,
    is_other_equation,
    same_solution,
)
from palestra.resources_servers.math_with_judge.towers import end_of_tower
from palestra.resources_servers.math_with_judge.units import ends_in_variables

for _name in ("math_verify", "latex2sympy2_extended"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

# latex2sympy2_extended 1.11 asks every atom for a method that its grammars do not have, on the
# way to percentages and E-notation, which therefore fail. They have no gamma: None is right.
_Atom: Final[Any] = antlr_parser.PSParser.AtomContext
if not hasattr(_Atom, "FUNC_GAMMA"):
    _Atom.FUNC_GAMMA = lambda _self: None

_WITH_UNITS: Final = replace(LatexExtractionConfig().normalization_config, boxed="none")
_WITHOUT: Final = replace(_WITH_UNITS, units=False)
_ANYWHERE: Final = (ExprExtractionConfig(), LatexExtractionConfig())

ROUNDED: Final = 0.01
"""The relative difference that both sides of an equation like `1/3 = 0.33` may have."""

_MOST_TERMS: Final = 20
"""The largest exponent of a sum that is expanded."""
_MOST_LEVELS: Final = 2
"""The deepest tower of powers with variables that is integrated."""
_SAMPLES: Final = (Rational(3, 7), Rational(13, 11), Rational(-5, 13))
_DIGITS: Final = 30
_SAME: Final = Rational(1, 10**20)


class _Reader(_Latex2Sympy):  # type: ignore[misc]  # the library says nothing of types
    """The parser of math-verify, with one of ANTLR's prediction modes."""

    def __init__(self, mode: PredictionMode, *, is_real: bool) -> None:
        super().__init__(is_real=is_real)
        self._mode = mode

    def create_parser(self, latex_str: str) -> Any:
        parser = super().create_parser(latex_str)
        parser._interp.predictionMode = self._mode  # noqa: SLF001  # ANTLR's documented way
        return parser


def read_answer(answer: str) -> tuple[Any | None, str]:
    """Return an answer's expression (None when it cannot be parsed) and its normalized text."""
    if (condition := spelling.condition(answer)) and (members := _members(condition)) is not None:
        return members, answer
    config = _WITHOUT if ends_in_variables(answer) else _WITH_UNITS
    normal: str = normalize_latex(answer, config)
    expression = _expression(normal)
    return (_expression(get_last_eq(normal)) if expression is None else expression), normal


def _members(condition: str) -> Any | None:
    """Return the set of numbers that meet a condition; None when sympy cannot compute it."""
    relation = _expression(normalize_latex(condition, _WITHOUT))
    if not is_relation(relation) or not _is_linear(relation):
        return None
    try:
        return unwrap_fcs(relation).as_set()
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return None


def _is_linear(relation: Any) -> bool:
    """Whether a relation only bounds a single symbol, so that nothing must be solved."""
    items = relation.args if isinstance(relation, And) else (relation,)
    sides = [side for item in items for side in item.args]
    return len(relation.free_symbols) == 1 and all(
        side.is_Symbol or not side.free_symbols for side in sides
    )


@lru_cache(maxsize=128)
def _expression(normal: str) -> Any | None:
    """Parse a normalized answer. Results are cached: the attempts at a task share the expected
    answer.
    """
    if end_of_tower(normal) is not None:
        return None
    is_real = not should_treat_as_complex(normal)
    for mode in (PredictionMode.SLL, PredictionMode.LL):
        try:
            return _Reader(mode, is_real=is_real).parse(normal)
        except MemoryError:
            raise
        except Exception:  # noqa: S112  # the grammar refuses with every kind there is
            continue
    return None


def find(text: str) -> list[Any]:
    """Return the expressions that math-verify finds in a text without a box, and the last one as
    text.

    Everything up to the end of a number that is too large to compute is ignored.
    """
    expressions: list[Any] = parse(text[end_of_tower(text) or 0 :], _ANYWHERE, parsing_timeout=None)
    return expressions


def equal(expected: Any | None, actual: Any | None) -> bool:
    """Whether two expressions (or two texts) are equal, by math-verify's rules and our own."""
    if expected is None or actual is None:
        return False
    if (same := same_solution(expected, actual, equal)) is not None:
        return same
    return _same_unnamed(expected, actual)


def _same_unnamed(expected: Any, actual: Any) -> bool:
    if is_other_equation(expected, actual) or differ_near_zero(expected, actual):
        return False
    if _is_costly(expected) or _is_costly(actual):
        return _same_at_samples(expected, actual)
    expected, actual = as_values(expected, actual)
    if verify(expected, actual, timeout_seconds=None):
        return True
    return _same_if_imaginary(expected, actual)


def _same_if_imaginary(expected: Any, actual: Any) -> bool:
    """Whether two values are equal when `i` is the imaginary unit.

    math-verify reads `i` as a variable. It is taken as the imaginary unit when it is the only
    symbol.
    """
    symbols = _symbols(expected) | _symbols(actual)
    if {symbol.name for symbol in symbols} != {"i"}:
        return False
    imaginary = dict.fromkeys(symbols, I)
    try:
        complex_expected, complex_given = (item.subs(imaginary) for item in (expected, actual))
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return False
    return bool(verify(complex_expected, complex_given, timeout_seconds=None))


def contradicts_itself(expression: Any | None) -> bool:
    """Whether an expression equates two numbers that are not even close, like `3 = 4`."""
    conjuncts = expression.args if isinstance(expression, And) else (expression,)
    return any(isinstance(item, Equality) and _are_apart(item.lhs, item.rhs) for item in conjuncts)


def _are_apart(first_value: Any, second_value: Any) -> bool:
    if not (first_value.is_number and second_value.is_number):
        return False
    try:
        first, second = complex(first_value), complex(second_value)
    except (TypeError, ValueError, OverflowError):
        return False
    return abs(first - second) > ROUNDED * max(abs(first), abs(second))


def _symbols(expression: Any) -> set[Any]:
    return set(getattr(expression, "free_symbols", ()))


def _is_costly(expression: Any) -> bool:
    """Whether simplifying an expression would take too long.

    Simplifying expands powers: `(x+1)^{100000}` would use up the whole time limit. So would an
    integral of a tower of powers.
    """
    if not isinstance(expression, Expr):
        return False
    if any(_is_long(power) for power in expression.atoms(Pow)):
        return True
    integrals = expression.atoms(Integral)
    return any(
        _levels(item) > _MOST_LEVELS for integral in integrals for item in integral.atoms(Pow)
    )


def _is_long(power: Any) -> bool:
    is_sum = isinstance(power.base, Add) and bool(power.base.free_symbols)
    return is_sum and power.exp.is_number and bool(abs(power.exp) > _MOST_TERMS)


def _levels(power: Any) -> int:
    levels = 0
    while isinstance(power, Pow) and power.free_symbols:
        power, levels = power.exp, levels + 1
    return levels


def _same_at_samples(first_value: Any, second_value: Any) -> bool:
    """Whether two expressions are identical, or have the same value at every sample point."""
    if first_value == second_value:
        return True
    if not (isinstance(first_value, Expr) and isinstance(second_value, Expr)):
        return False
    if first_value.has(Integral) or second_value.has(Integral):
        return False
    symbols = sorted(first_value.free_symbols | second_value.free_symbols, key=str)
    return all(
        _same_at(first_value, second_value, symbols, sample) for sample in range(len(_SAMPLES))
    )


def _same_at(first_value: Any, second_value: Any, symbols: list[Any], sample: int) -> bool:
    values = {
        symbol: _SAMPLES[(sample + number) % len(_SAMPLES)] + number
        for number, symbol in enumerate(symbols)
    }
    try:
        first, second = (item.evalf(_DIGITS, subs=values) for item in (first_value, second_value))
        return bool(abs(first - second) <= _SAME * max(abs(first), abs(second)))
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return False
