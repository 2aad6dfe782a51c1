"""The only module that uses the `reasoning_gym` library.

How the library is loaded:

- `pycosat` is optional. It is a C extension without wheels that only the generator `zebra_puzzles`
  uses. Where it is missing, a substitute module lets everything else be imported.
- No scorer runs code from a model. Some scorers call `eval`, or sympy's `parse_expr`, which also
  evaluates. In their modules, `ast.literal_eval` replaces `eval`, and a version that first calls
  `check_expression` replaces `parse_expr`. Scorers treat a rejected text as an answer that cannot
  be parsed. `check_expression` accepts numbers, names, `+ - * / **`, brackets and calls of known
  functions. It rejects attributes, strings, comments and comprehensions, so nothing can be run, and
  numbers above `10**300`, so nothing takes hours to compute.
- The library prints nothing to standard output.
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

from palestra.errors import ConfigError, require_extra

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
"""Functions whose result grows exponentially: its number of digits grows with the argument."""


def check_expression(text: str) -> None:
    """Raise ValueError when `text` is not a plain expression."""
    if len(text) > LONGEST_EXPRESSION or "#" in text or "__" in text:
        raise ValueError("not a plain expression")
    tree = ast.parse(text.strip(), mode="eval")
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise ValueError(f"the expression has more than {MOST_NODES} parts")
    _digits(tree.body)


def _digits(node: ast.expr) -> float:
    """Estimate the number of decimal digits that a value can have; never far too low.

    A name counts as half a digit: enough to reject `(x + 1)**9999`, and low enough to accept
    `exp(x**4)`.
    """
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("not a plain expression: a truth value")
        case ast.Constant(value=int() | float() as number):
            digits = math.log10(abs(number)) if number else 0.0
        case ast.Name():
            digits = 0.5
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            digits = _digits(operand)
        case ast.BinOp(left=first, op=ast.Add() | ast.Sub(), right=right):
            digits = _sum(_digits(first), _digits(right))
        case ast.BinOp(left=first, op=ast.Mult() | ast.Div(), right=right):
            digits = abs(_digits(first)) + abs(_digits(right))
        case ast.BinOp(left=first, op=ast.Pow(), right=right):
            digits = abs(_digits(first)) * _value(_digits(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            digits = sum(abs(_digits(argument)) for argument in args)
            digits = _value(digits) if name in GROWING else digits
        case _:
            raise ValueError(f"not a plain expression: {type(node).__name__}")
    if not digits <= MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS:.0f} digits")
    return digits


def _sum(first: float, right: float) -> float:
    return max(first, right) + math.log10(1 + 10 ** -min(abs(first - right), 300.0))


def _value(digits: float) -> float:
    return 10**digits if digits < 4 else math.inf


Scorer = Callable[[str, Mapping[str, Any]], float]

LIBRARY = "reasoning_gym"
PYCOSAT = "pycosat"

COMPOSITE = "composite"
"""The library's mixture of families. It has no tasks of its own; `generate_rows` mixes instead."""

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
"""Modules that call `parse_expr` through sympy, with their name for sympy."""


class UnknownFamily(ConfigError):
    """Raised for a family that the library does not have."""


_LOADING = Lock()


def load_reasoning_gym() -> ModuleType:
    """Return the library, made safe. The first call takes seconds. Any thread may call this
    function.

    Raises ConfigError: the library is not installed.
    """
    with _LOADING:
        return _loaded()


def check_installed() -> None:
    """Raise ConfigError when the library is not installed. Load nothing."""
    require_extra(LIBRARY, extra="reasoning-gym", what="the reasoning_gym environment")


def warm_up() -> None:
    """Load the library in a worker before its first call."""
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
    """Return the names of all families that can generate tasks, in alphabetical order."""
    load_reasoning_gym()
    registered = vars(import_module(f"{LIBRARY}.factory"))["DATASETS"]
    return tuple(sorted(registered.keys() - {COMPOSITE}))


def check_family(name: str) -> None:
    """Raise UnknownFamily, with similar names, when there is no family `name`."""
    names = families()
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"families: {', '.join(names)}"
    raise UnknownFamily(f"reasoning_gym has no family named {name!r}", hint=hint)


@cache
def scorer_of(family: str) -> Scorer:
    """Return the library's scorer of a family. Raises UnknownFamily: there is no such family."""
    check_family(family)
    scorer: Scorer = load_reasoning_gym().get_score_answer_fn(family)
    return scorer


class _CheckedSympy:
    """The sympy module, except that `parse_expr` rejects texts that are not plain expressions."""

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
    """Do nothing; replaces `print`."""


def _pycosat_stand_in() -> ModuleType:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise ConfigError(
            "zebra_puzzles needs pycosat, which is not installed", hint="pip install pycosat"
        )

    module = ModuleType(PYCOSAT)
    vars(module).update(solve=refuse, itersolve=refuse)
    return module
