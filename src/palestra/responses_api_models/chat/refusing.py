"""Refusing what a Chat Completions endpoint cannot be asked."""

from typing import NoReturn

from palestra.errors import Evidence, FieldProblem, RowError


def refuse(pointer: str, expected: str) -> NoReturn:
    """Say what of a request cannot be sent, and what could be instead. Raises `RowError`."""
    raise RowError(
        f"{pointer} cannot be sent to a Chat Completions endpoint; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )
