"""Whether a text is a plain arithmetic or algebraic expression, before anything evaluates it.

Plain means: numbers, names, `+ - * / **`, brackets, and calls of known functions. No attribute,
string, comment or comprehension, so nothing can be run; and no number above `10**300`, so nothing
can be made to compute for hours.
"""

import ast
import math

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
