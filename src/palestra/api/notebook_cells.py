"""Takes out of a cell's text what runs an environment, so that servers can import the rest.

A statement is taken out when it uses one of the functions that run environments, or a name that such
a statement has bound. Definitions and imports stay. What another cell has imported of Palestra is put
in. Line numbers stay, too.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_AWAITING_CELL = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_DEFERRED = (ast.Lambda, ast.JoinedStr)
"""Expressions whose names are not replaced: a function's body runs later, and the parts of a text have
no exact places."""
_OF_IPYTHON = "get_ipython"
"""What a magic of IPython, such as `%pip`, becomes a call of."""


def importable_text(
    cell: str,
    running_names: Collection[str],
    imported: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the cell's text with `pass` in place of the statements that run an environment.

    `running_names`: the names, as the cell writes them, of the functions that run environments:
    `palestra.evaluate`, or `evaluate` where it was imported. `imported`: what other cells have
    imported, as an expression by name. Where the cell uses and does not bind such a name, the
    expression replaces it, and functions get it from an assignment at the end of the text.
    """
    tree = compile(cell, "<cell>", "exec", flags=_AWAITING_CELL)
    names = {*running_names, _OF_IPYTHON}
    lines = cell.encode().splitlines(keepends=True)
    removed: list[ast.stmt] = []
    for statement in tree.body:
        if names.isdisjoint(_names_in(statement, ast.Load)):
            continue
        if isinstance(statement, _Function):
            names.add(statement.name)
        elif not isinstance(statement, ast.ClassDef):
            names.update(_names_in(statement, ast.Store))
            removed.append(statement)
    statements = [statement for statement in tree.body if statement not in removed]
    own_names = {name for statement in statements for name in _bound_names(statement)}
    read_names = {name for statement in statements for name in _names_in(statement, ast.Load)}
    values = {n: value for n, value in imported.items() if n in read_names - own_names}
    edits: list[tuple[ast.stmt | ast.Name, str]] = [(statement, "pass") for statement in removed]
    edits += [
        (name, values[name.id])
        for statement in statements
        for name in _read_at_once(statement)
        if name.id in values
    ]
    for node, text in sorted(edits, key=lambda edit: _place_of(edit[0]), reverse=True):
        _replace(lines, node, text)
    end = "".join(f"\n{name} = {value}" for name, value in values.items())
    return b"".join(lines).decode() + end


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a cell binds in its namespace."""
    match statement:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((name.asname or name.name).partition(".")[0] for name in names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case _:
            yield from _names_in(statement, ast.Store)


def _place_of(node: ast.stmt | ast.Name) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _read_at_once(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that a node reads, without those in the bodies of its functions."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node
    for field, child in ast.iter_fields(node):
        is_body = isinstance(node, _Function) and field == "body"
        parts = child if isinstance(child, list) else [child]
        for part in parts if not is_body and not isinstance(node, _DEFERRED) else ():
            if isinstance(part, ast.AST):
                yield from _read_at_once(part)


def _names_in(statement: ast.stmt, context: type[ast.expr_context]) -> Iterator[str]:
    """Yield the names and dotted names of a statement that are read or bound."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, context):
            yield ast.unparse(node)


def _replace(lines: list[bytes], node: ast.stmt | ast.Name, text: str) -> None:
    """Put `text` in place of a node, and keep the number of lines."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before = lines[first][: node.col_offset]
    after = lines[last][node.end_col_offset :]
    empty = [b"\n"] * (last - first)
    lines[first : last + 1] = [before + text.encode() + after, *empty]
