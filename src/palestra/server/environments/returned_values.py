"""What an author's methods return, by their code: nothing but numbers, always a text, or nothing."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from palestra.server.author_code import AuthorCode, nodes_of_scope

_NUMBERS: Final = (float, int, bool)
_NUMBER_CALLS: Final = frozenset({"float", "int", "bool", "isinstance", "len"})

_CHANGING_METHODS: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "remove", "sort", "update"}
)
"""Methods of Python's lists, sets and dicts that change them."""


def returns_only_numbers(function: Any, code: AuthorCode) -> bool:
    """Whether it is certain that each value that `function` returns is a number or a bool, by its
    annotation, else by the `return` statements of its `code`.

    It is never certain for a decorated function: its decorator may return something else.
    """
    if hasattr(function, "__wrapped__"):
        return False
    annotation = getattr(function, "__annotations__", {}).get("return")
    if any(annotation is kind or annotation == kind.__name__ for kind in _NUMBERS):
        return True
    values = [_is_number(node) for node in _returned(code)]
    return bool(values) and all(values)


def always_returns_text(function: Any, code: AuthorCode) -> bool:
    """Whether it is certain that each call of `function` that ends returns a text, and never None.

    It is never certain for a decorated function: its decorator may return something else.
    """
    if hasattr(function, "__wrapped__") or code.tree is None:
        return False
    body = code.tree.body
    ends_so = not isinstance(body, list) or isinstance(body[-1], ast.Return)
    return ends_so and all(map(_is_text, _returned(code)))


def never_returns_a_value(function: Any, code: AuthorCode) -> bool:
    """Whether it is certain that some call of `function` ends, and that each that does returns None.

    It is never certain for a decorated function: its decorator may return something else.
    """
    if hasattr(function, "__wrapped__") or code.tree is None or isinstance(code.tree, ast.Lambda):
        return False
    nodes = list(nodes_of_scope(code.tree.body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return False
    returns = [node for node in nodes if isinstance(node, ast.Return)]
    return all(map(_is_none, returns)) and (bool(returns) or _may_end(code.tree.body))


def _is_none(node: ast.Return) -> bool:
    return node.value is None


def _may_end(body: Sequence[ast.stmt]) -> bool:
    """Whether it is certain that some call reaches the end of a body. A call of an unknown function
    may always raise; an empty body is one that a subclass writes.
    """
    match body[-1]:
        case ast.If(body=inner, orelse=otherwise):
            return not otherwise or _may_end(inner) or _may_end(otherwise)
        case ast.For(orelse=otherwise) | ast.AsyncFor(orelse=otherwise):
            return not otherwise or _may_end(otherwise)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _may_end(inner)
        case last:
            return _is_passed(last)


def _is_passed(node: ast.stmt) -> bool:
    """Whether it is certain that a statement without others in it does not always raise."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method))):
            return method in _CHANGING_METHODS
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant | ast.Call | ast.Await)
        case _:
            return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete)


def _is_text(node: ast.expr | None) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            return _is_text(left) or _is_text(right)
        case ast.IfExp(body=body, orelse=other):
            return _is_text(body) and _is_text(other)
        case _:
            return False


def _returned(code: AuthorCode) -> Iterator[ast.expr | None]:
    if code.tree is None:
        return
    if isinstance(code.tree, ast.Lambda):
        yield code.tree.body
        return
    for node in nodes_of_scope(code.tree.body):
        if isinstance(node, ast.Return):
            yield node.value


def _is_number(node: ast.expr | None) -> bool:
    """Whether an expression can be nothing but a number or a bool, whatever its names hold."""
    match node:
        case (
            ast.Constant(value=bool() | int() | float()) | ast.Compare() | ast.UnaryOp(op=ast.Not())
        ):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):  # `Counter(a) + Counter(b)` is a mapping
            return _is_number(left) and _is_number(right)
        case ast.BoolOp(values=values):
            return all(map(_is_number, values))
        case ast.IfExp(body=body, orelse=other):
            return _is_number(body) and _is_number(other)
        case _:
            return isinstance(node, ast.Call) and _calls_a_number(node)


def _calls_a_number(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in _NUMBER_CALLS
