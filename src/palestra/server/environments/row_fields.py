"""Explain an AttributeError of an author's code that reads a field of the row as `self.FIELD`."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from palestra.server.environments.parameters import MEANINGS


@contextlib.contextmanager
def explained_fields(
    environment: Any, row: Mapping[str, Any], *, method: str = ""
) -> Iterator[None]:
    """Add to an AttributeError of the body how to read the row's field, when it is about a field of
    `row` that the code looked for on the object `environment`.

    `method`: the author's method that runs, when fields of the row fill its parameters.
    """
    try:
        yield
    except AttributeError as error:
        if error.obj is environment and error.name is not None and error.name in row:
            error.args = (f"{error}{_how_to_read(error.name, method)}",)
        raise


def _how_to_read(field: str, method: str) -> str:
    as_parameter = f", or a parameter {field} of {method}"
    return (
        f'; the field of the row is self.task["{field}"]'
        f"{as_parameter if method and field not in MEANINGS else ''}"
    )
