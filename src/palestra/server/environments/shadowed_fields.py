"""Warn of a field of the rows that an author's parameter hides: rows have `answer`, and so has `verify`.

There is no warning where the author may know: the code names the field, such as `task["answer"]`, or
hands the row on to code that may read it, or cannot be read.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from palestra.server.author_code import AuthorCode, FunctionTree
from palestra.server.environments.parameters import MEANINGS, RESPONSE, TASK
from palestra.server.method_forms import SELF_NAMES

_READ_NO_FIELD: Final = frozenset(
    {"bool", "float", "int", "isinstance", "len", "print", "repr", "str", "type"}
)
"""Functions that may get the row, and read none of its fields."""
_MAPPING_METHODS: Final = frozenset(dir(Mapping)) - frozenset(dir(object))
_OPERATORS: Final = (ast.Compare, ast.BinOp, ast.UnaryOp, ast.FormattedValue)


def shadowed_fields(
    name: str,
    code: AuthorCode,
    parameters: Iterable[str],
    fields: Iterable[str],
    methods: Mapping[str, AuthorCode],
) -> Iterator[str]:
    """Yield a sentence for each parameter that a field of the rows has the name of, and that is
    filled with something else.

    `methods`: all methods of the class. Those that the method `name` uses may read the field, too.
    """
    row_fields = frozenset(fields)
    codes = _codes_used(code, methods)
    if any(used.tree is None or _hands_row_on(used.tree) for used in codes):
        return
    texts = frozenset[str]().union(*(used.texts for used in codes))
    for parameter in sorted(MEANINGS.keys() & parameters & row_fields):
        # Code that names a field of the task knows that `task` is the row.
        field_names = row_fields if parameter == TASK else {parameter}
        if not texts & field_names:
            cure = (
                "rename the field, which no task has"
                if parameter == RESPONSE
                else f'the field is task["{parameter}"] (add the parameter task), or rename it'
            )
            yield (
                f"{code.place}the rows have a field {parameter!r}, but the parameter "
                f"{parameter} of {name} is {MEANINGS[parameter]}; {cure}"
            )


def _codes_used(code: AuthorCode, methods: Mapping[str, AuthorCode]) -> list[AuthorCode]:
    """Return `code`, the methods that it calls, and those that set the attributes that it reads."""
    setters: dict[str, list[AuthorCode]] = {}
    for method in methods.values():
        for attribute in _attributes(method.tree, ast.Store):
            setters.setdefault(attribute, []).append(method)
    codes = [code]
    for used in codes:
        for attribute in _attributes(used.tree, ast.Load):
            called = [methods[attribute]] if attribute in methods else []
            for reached in (*called, *setters.get(attribute, ())):
                if reached not in codes:
                    codes.append(reached)  # the list is the queue
    return codes


def _attributes(tree: FunctionTree | None, context: type[ast.expr_context]) -> frozenset[str]:
    """Return the attributes of `self` that a method reads or sets."""
    return frozenset(
        node.attr
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, context)
        and _is_self(node.value)
    )


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in SELF_NAMES


def _is_row(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == TASK and _is_self(node.value)
    return isinstance(node, ast.Name) and node.id == TASK and isinstance(node.ctx, ast.Load)


def _hands_row_on(tree: FunctionTree) -> bool:
    """Whether a function hands the row, or the object that has it, on to code that may read any
    field.
    """
    read_fields = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    }
    return any(
        _calls_super(parent)
        or (_is_self(child) and not isinstance(parent, ast.Attribute))
        or (_is_row(child) and id(parent) not in read_fields and _may_read_any(parent, child))
        for parent in ast.walk(tree)
        for child in ast.iter_child_nodes(parent)
    )


def _calls_super(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _may_read_any(parent: Any, row: ast.AST) -> bool:
    """Whether an expression with the row in it may read a field without naming it here."""
    match parent:
        case ast.Subscript(slice=ast.Constant()):
            return False
        case ast.Attribute(attr=name):  # one of a text, where the author takes `task` for the field
            return name in _MAPPING_METHODS
        case ast.Call(func=ast.Name(id=name)):
            return name not in _READ_NO_FIELD
        case (
            ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test)
        ):
            return test is not row
        case _:
            return not isinstance(parent, _OPERATORS)
