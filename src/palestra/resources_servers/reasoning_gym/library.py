"""The one place where the `reasoning_gym` library is touched.

Rules it is loaded under:

- `pycosat` is not required. It is a C extension without wheels that one generator
  (`zebra_puzzles`) uses; where it is missing, a stand-in lets everything else be imported.
- No scorer runs what a model wrote. Some call `eval`, or sympy's `parse_expr`, which evaluates
  too; in those modules the first is replaced by `ast.literal_eval` and the second by a version
  that first checks the text with `check_expression`. What these refuse, the scorers
  take for an answer that cannot be parsed. It takes numbers, names, `+ - * / **`, brackets and calls
  of known functions; no attribute, string, comment or comprehension, so nothing can be run; and no
  number above `10**300`, so nothing can be made to compute for hours.
- It prints nothing: standard output belongs to whoever loads it.
"""

import ast
import difflib
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

from palestra.errors import ConfigError

LONGEST_EXPRESSION = 2_000
MOST_NODES = 400
MOST_DIGITS = 300.0

FUNCTIONS = frozenset(
    [
        "Abs",
        "Integer",
        "Rational",
        "abs",
        "acos",
        "acosh",
        "acot",
        "asec",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "cosh",
        "cot",
        "coth",
        "csc",
        "csch",
        "exp",
        "ln",
        "log",
        "sec",
        "sech",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    ]
)


GROWING = frozenset({"cosh", "exp", "sinh"})
"""Functions whose value has about as many digits as their argument is large."""


def check_expression(text: str) -> None:
    """Raises ValueError when `text` is anything but a plain expression."""
    if len(text) > LONGEST_EXPRESSION or "#" in text or "__" in text:
        raise ValueError("no plain expression")
    tree = ast.parse(text.strip(), mode="eval")
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise ValueError(f"an expression of more than {MOST_NODES} parts")
    _digits(tree.body)


def _digits(node: ast.expr) -> float:
    """About how many decimal digits the value can have, never too few by much.

    A name counts as half a digit: enough to stop `(x + 1)**9999`, little enough for `exp(x**4)`.
    """
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("no plain expression: a truth value")
        case ast.Constant(value=int() | float() as number):
            digits = math.log10(abs(number)) if number else 0.0
        case ast.Name():
            digits = 0.5
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            digits = _digits(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            digits = _sum(_digits(left), _digits(right))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            digits = abs(_digits(left)) + abs(_digits(right))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            digits = abs(_digits(left)) * _value(_digits(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            digits = sum(abs(_digits(argument)) for argument in args)
            digits = _value(digits) if name in GROWING else digits
        case _:
            raise ValueError(f"no plain expression: {type(node).__name__}")
    if not digits <= MOST_DIGITS:
        raise ValueError(f"a number of more than {MOST_DIGITS:.0f} digits")
    return digits


def _sum(left: float, right: float) -> float:
    return max(left, right) + math.log10(1 + 10 ** -min(abs(left - right), 300.0))


def _value(digits: float) -> float:
    return 10**digits if digits < 4 else math.inf


Scorer = Callable[[str, Mapping[str, Any]], float]

LIBRARY = "reasoning_gym"
PYCOSAT = "pycosat"

COMPOSITE = "composite"
"""The library's mixture of families: it has no tasks of its own, and we mix ourselves."""

_CALLS_EVAL = (
    "algorithmic.binary_matrix",
    "algorithmic.number_sorting",
    "algorithmic.spiral_matrix",
    "algorithmic.string_insertion",
    "games.n_queens",
)
_CALLS_PARSE_EXPR = ("games.countdown", "games.puzzle24")
_CALLS_SYMPY = {
    "algebra.intermediate_integration": "sympy",
    "algebra.polynomial_multiplication": "sp",
    "algebra.simple_integration": "sympy",
}
"""Modules that call `parse_expr` through sympy, and their name for it."""


class UnknownFamily(ConfigError):
    """A family that the library does not have."""


_LOADING = Lock()


def load_reasoning_gym() -> ModuleType:
    """The library, made safe. Takes seconds the first time; any thread may ask.

    Raises ConfigError when it is not installed.
    """
    with _LOADING:
        return _loaded()


def check_installed() -> None:
    """Raises ConfigError when the library is not installed. Loads nothing."""
    if find_spec(LIBRARY) is None:
        raise ConfigError(
            "the reasoning_gym environment needs the library of that name",
            hint="pip install 'palestra[reasoning-gym]'",
        )


def warm_up() -> None:
    """Load the library, for workers, before the first call."""
    load_reasoning_gym()


@cache
def _loaded() -> ModuleType:
    check_installed()
    stand_in = None if find_spec(PYCOSAT) else _pycosat_stand_in()
    if stand_in is not None:
        sys.modules[PYCOSAT] = stand_in
    try:
        with warnings.catch_warnings(action="ignore"):
            library = import_module(LIBRARY)
    finally:
        if stand_in is not None:
            # The library holds on to it; nobody else shall take it for the real one.
            del sys.modules[PYCOSAT]
    _forbid_evaluation()
    _silence()
    return library


def families() -> tuple[str, ...]:
    """Every family that tasks can be generated of, in alphabetical order."""
    load_reasoning_gym()
    registered = vars(import_module(f"{LIBRARY}.factory"))["DATASETS"]
    return tuple(sorted(registered.keys() - {COMPOSITE}))


def check_family(name: str) -> None:
    """Raises UnknownFamily, with the nearest spelling, when there is no such family."""
    known = families()
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"families: {', '.join(known)}"
    raise UnknownFamily(f"reasoning_gym has no family named {name!r}", hint=hint)


@cache
def scorer_of(family: str) -> Scorer:
    """The library's scorer of a family. Raises UnknownFamily."""
    check_family(family)
    scorer: Scorer = load_reasoning_gym().get_score_answer_fn(family)
    return scorer


class _CheckedSympy:
    """sympy, except that `parse_expr` refuses what is no plain expression."""

    def __init__(self, sympy: ModuleType) -> None:
        self._sympy = sympy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sympy, name)

    def parse_expr(self, text: str, **kwargs: Any) -> Any:
        check_expression(text)
        return self._sympy.parse_expr(text, **kwargs)


def _forbid_evaluation() -> None:
    sympy = _CheckedSympy(import_module("sympy"))
    for name in _CALLS_EVAL:
        vars(import_module(f"{LIBRARY}.{name}"))["eval"] = ast.literal_eval
    for name in _CALLS_PARSE_EXPR:
        vars(import_module(f"{LIBRARY}.{name}"))["parse_expr"] = sympy.parse_expr
    for name, alias in _CALLS_SYMPY.items():
        vars(import_module(f"{LIBRARY}.{name}"))[alias] = sympy


def _silence() -> None:
    ours = [module for name, module in sys.modules.items() if name.startswith(f"{LIBRARY}.")]
    for module in ours:
        vars(module)["print"] = _say_nothing


def _say_nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stands in for `print`."""


def _pycosat_stand_in() -> ModuleType:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise ConfigError("zebra_puzzles needs pycosat", hint="pip install pycosat")

    module = ModuleType(PYCOSAT)
    vars(module).update(solve=refuse, itersolve=refuse)
    return module
