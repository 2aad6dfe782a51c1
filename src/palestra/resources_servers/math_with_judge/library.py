"""The one place where math-verify is touched. Imported only in worker processes.

It reads LaTeX into sympy expressions and says whether two are equal. Its own time limits are off:
they are alarms that native code does not hear, and the worker's limit is the one that holds.

Reading goes beneath its public `parse`, to the parser that it uses, for two reasons. A box has been
found already, and a search in its content would find other things. And ANTLR's fast prediction is
tried first (`SLL`), which by ANTLR's documentation gives the same tree or a syntax error: four
times the speed. All of this is held to `parse` by a test.
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
"""By what part of themselves both sides of `1/3 = 0.33` may differ."""

_MOST_TERMS: Final = 20
"""Of a sum's power that is multiplied out."""
_MOST_LEVELS: Final = 2
"""Of powers with variables that are integrated."""
_SAMPLES: Final = (Rational(3, 7), Rational(13, 11), Rational(-5, 13))
_DIGITS: Final = 30
_SAME: Final = Rational(1, 10**20)


class _Reader(_Latex2Sympy):  # type: ignore[misc]  # the library says nothing of types
    """The library's reader, with one of ANTLR's ways to predict."""

    def __init__(self, mode: PredictionMode, *, is_real: bool) -> None:
        super().__init__(is_real=is_real)
        self._mode = mode

    def create_parser(self, latex_str: str) -> Any:
        parser = super().create_parser(latex_str)
        parser._interp.predictionMode = self._mode  # noqa: SLF001  # ANTLR's documented way
        return parser


def read(answer: str) -> tuple[Any | None, str]:
    """An answer's expression, None when it is none, and its normalized text."""
    if (condition := spelling.condition(answer)) and (members := _members(condition)) is not None:
        return members, answer
    config = _WITHOUT if ends_in_variables(answer) else _WITH_UNITS
    normal: str = normalize_latex(answer, config)
    expression = _expression(normal)
    return (_expression(get_last_eq(normal)) if expression is None else expression), normal


def _members(condition: str) -> Any | None:
    """The numbers that fulfil a condition, as a set; None where the library has none."""
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
    """Whether it bounds one symbol alone, so that nothing has to be solved."""
    items = relation.args if isinstance(relation, And) else (relation,)
    sides = [side for item in items for side in item.args]
    return len(relation.free_symbols) == 1 and all(
        side.is_Symbol or not side.free_symbols for side in sides
    )


@lru_cache(maxsize=128)
def _expression(normal: str) -> Any | None:
    """Cached, as the attempts at a task share the expected answer."""
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
    """Expressions that the library finds in a text without a box, by its own rules; and the last
    as it stands there. Nothing before a number that is too large to be worked out.
    """
    found: list[Any] = parse(text[end_of_tower(text) or 0 :], _ANYWHERE, parsing_timeout=None)
    return found


def equal(expected: Any | None, given: Any | None) -> bool:
    """Whether two expressions (or two texts) are equal, by the library's rules and ours."""
    if expected is None or given is None:
        return False
    if (same := same_solution(expected, given, equal)) is not None:
        return same
    return _same_unnamed(expected, given)


def _same_unnamed(expected: Any, given: Any) -> bool:
    if is_other_equation(expected, given) or differ_near_zero(expected, given):
        return False
    if _is_costly(expected) or _is_costly(given):
        return _same_at_samples(expected, given)
    expected, given = as_values(expected, given)
    if verify(expected, given, timeout_seconds=None):
        return True
    return _same_if_imaginary(expected, given)


def _same_if_imaginary(expected: Any, given: Any) -> bool:
    """The library takes `i` for a variable. Where it is the only one, it is the imaginary unit."""
    symbols = _symbols(expected) | _symbols(given)
    if {symbol.name for symbol in symbols} != {"i"}:
        return False
    imaginary = dict.fromkeys(symbols, I)
    try:
        complex_expected, complex_given = (item.subs(imaginary) for item in (expected, given))
    except MemoryError:
        raise
    except Exception:  # sympy refuses it with whatever its classes raise
        return False
    return bool(verify(complex_expected, complex_given, timeout_seconds=None))


def contradicts_itself(expression: Any | None) -> bool:
    """Whether it says that two numbers are equal that are not even close, as `3 = 4`."""
    said = expression.args if isinstance(expression, And) else (expression,)
    return any(isinstance(item, Equality) and _are_apart(item.lhs, item.rhs) for item in said)


def _are_apart(one: Any, other: Any) -> bool:
    if not (one.is_number and other.is_number):
        return False
    try:
        first, second = complex(one), complex(other)
    except (TypeError, ValueError, OverflowError):
        return False
    return abs(first - second) > ROUNDED * max(abs(first), abs(second))


def _symbols(expression: Any) -> set[Any]:
    return set(getattr(expression, "free_symbols", ()))


def _is_costly(expression: Any) -> bool:
    """Whether simplifying it would take too long.

    Simplifying multiplies out: `(x+1)^{100000}` would take the whole limit, as an integral of a
    tower of powers would.
    """
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


def _same_at_samples(one: Any, other: Any) -> bool:
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
