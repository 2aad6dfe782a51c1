"""Warn of a field of the rows that is a number where an author's code compares it with the answer, which
is a text, by the code.

There is no warning where the author may know: the code also compares the field with something that
may be a number, computes with it, or passes it on.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from palestra.server.author_code import AuthorCode, FunctionTree, bound_once, compared_pairs
from palestra.server.environments.attribute_types import is_number
from palestra.server.environments.parameters import ANSWER, TASK
from palestra.server.method_forms import SELF_NAMES

_TEXT_METHODS: Final = frozenset(
    {
        "capitalize",
        "casefold",
        "format",
        "join",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "replace",
        "rstrip",
        "strip",
        "title",
        "upper",
    }
)
_LIST_METHODS: Final = frozenset({"partition", "rpartition", "rsplit", "split", "splitlines"})
"""Methods of a text that return a list of texts."""
_EQUALITY: Final = (ast.Eq, ast.NotEq)
_CONTAINMENT: Final = (ast.In, ast.NotIn)


def compared_numbers(
    code: AuthorCode, parameters: frozenset[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a sentence for each field that is a number in all `rows` and that the code compares with
    the answer. `parameters`: those of the code's function.
    """
    if code.tree is None or ANSWER not in parameters or not rows:
        return
    reader = _Reader(code.tree, parameters)
    for field in sorted(frozenset(rows[0]) - {ANSWER, TASK}):
        if not all(is_number(row.get(field)) for row in rows):
            continue
        operators = reader.compared_with_text(field)
        if operators:
            effect = (
                "they are never equal"
                if isinstance(operators[0], _EQUALITY)
                else "in raises TypeError"
            )
            yield (
                f"{code.place}{field} is a number in the rows, and the answer is a text: {effect}; "
                f"write str({reader.forms[field]})"
            )


class _Reader:
    """Reads which expressions of a function are the answer's text, and which a field of the row."""

    def __init__(self, tree: FunctionTree, parameters: frozenset[str]) -> None:
        self.forms: dict[str, str] = {}
        """How the code writes each field that it compares."""
        nodes = list(ast.walk(tree))
        self._certain = bound_once(nodes)
        self._parameters = parameters & self._certain
        self._texts = {ANSWER} & self._certain
        self._nodes = nodes
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if name in self._certain and self._is_text(value):
                        self._texts.add(name)
                case _:
                    pass

    def compared_with_text(self, field: str) -> list[ast.cmpop]:
        """Return the operators that compare a field with the answer; none where the code may know the
        field's type.
        """
        operators: list[ast.cmpop] = []
        for node in self._nodes:
            if self._uses_otherwise(node, field):
                return []
            for operator, first, second in compared_pairs(node):
                sides = [self._is_field(side, field) for side in (first, second)]
                if not any(sides):
                    continue
                against = second if sides[0] else first
                if not isinstance(operator, _EQUALITY + _CONTAINMENT) or not self._is_text(against):
                    return []
                self.forms[field] = ast.unparse(first if sides[0] else second)
                operators.append(operator)
        return operators

    def _uses_otherwise(self, node: ast.AST, field: str) -> bool:
        match node:
            case ast.Call(args=arguments, keywords=keywords):
                operands = [*arguments, *(keyword.value for keyword in keywords)]
            case ast.BinOp(left=first, right=second):
                operands = [first, second]
            case _:
                operands = []
        return any(self._is_field(operand, field) for operand in operands)

    def _is_field(self, node: ast.expr, field: str) -> bool:
        match node:
            case ast.Name(id=name):
                return name == field and name in self._parameters
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                return key == field and name == TASK and name in self._parameters
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=owner), attr=name),
                slice=ast.Constant(value=key),
            ):
                return key == field and name == TASK and owner in SELF_NAMES
            case _:
                return False

    def _is_text(self, node: ast.expr) -> bool:
        """Whether an expression can be nothing but a text of the answer."""
        match node:
            case ast.Name(id=name):
                return name in self._texts
            case ast.Call(func=ast.Attribute(value=value, attr=method)):
                return method in _TEXT_METHODS and self._is_text(value)
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=value, attr=method)), slice=index
            ) if method in _LIST_METHODS:
                return not isinstance(index, ast.Slice) and self._is_text(value)
            case ast.Subscript(value=value):
                return self._is_text(value)
            case _:
                return False
