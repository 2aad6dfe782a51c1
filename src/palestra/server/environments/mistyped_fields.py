"""Warn of a field of the rows that is a text where an author's parameter is annotated with another type,
as each field of a CSV file is.

There is no warning where the author may know: the code passes the parameter on, as in `int(target)`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, get_origin, get_type_hints

from palestra.schema import short_repr
from palestra.server.author_code import AuthorCode
from palestra.server.environments.records import RowPlaces

_CURES: Final[Mapping[Any, str]] = {
    int: "int({name})",
    float: "float({name})",
    bool: '{name} == "true"',
    list: "json.loads({name})",
    dict: "json.loads({name})",
}
"""How to read a text as a value of a type."""


def mistyped_fields(
    function: Any,
    code: AuthorCode,
    names: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    row_places: RowPlaces,
) -> Iterator[str]:
    """Yield a sentence for each parameter of `function` among `names` that a row fills with a text,
    against its annotation.

    There is none for a decorated function: its decorator may convert the values.
    """
    if code.tree is None or hasattr(function, "__wrapped__"):
        return
    try:
        hints = get_type_hints(function)
    except Exception:  # a type that cannot be read is of no effect here
        return
    passed_on = _names_passed_on(code.tree)
    for name in sorted(frozenset(names) - passed_on):
        kind = hints.get(name)
        cure = _CURES.get(get_origin(kind) or kind)
        number = next((n for n, row in enumerate(rows) if isinstance(row.get(name), str)), None)
        if cure is not None and number is not None:
            yield (
                f"{code.place}{name} is annotated {getattr(kind, '__name__', kind)}, but it is the text "
                f"{short_repr(rows[number][name])} in {row_places.of(number)}; write "
                f"{cure.format(name=name)}"
            )


def _names_passed_on(tree: ast.AST) -> frozenset[str]:
    """Return the names that the code passes to a function, or binds to something else."""
    arguments = (
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    )
    stored = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    return frozenset(node.id for node in (*arguments, *stored) if isinstance(node, ast.Name))
