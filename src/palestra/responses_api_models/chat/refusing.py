"""Refusing what an endpoint cannot be asked."""

from collections.abc import Mapping
from typing import NoReturn, TypeVar

from palestra.errors import ConfigError, Evidence, FieldProblem, RowError

Body = TypeVar("Body", bound=Mapping[str, object] | None)


def refuse(pointer: str, expected: str) -> NoReturn:
    """Say what of a request cannot be sent, and what could be instead. Raises `RowError`."""
    raise RowError(
        f"{pointer} cannot be sent to a Chat Completions endpoint; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )


def refuse_stream(extra_body: Body) -> Body:
    """The configured `extra_body`. Raises ConfigError where it asks for a stream."""
    if extra_body and extra_body.get("stream"):
        raise ConfigError(
            "extra_body.stream: true: every answer would be a stream, and is read in one piece",
            hint="take `stream` out of extra_body",
        )
    return extra_body
