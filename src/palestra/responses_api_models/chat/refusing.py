"""Refusing what an endpoint cannot be asked."""

from typing import Any, NoReturn

from palestra.errors import ConfigError, Evidence, FieldProblem, RowError


def refuse(pointer: str, expected: str) -> NoReturn:
    """Say what of a request cannot be sent, and what could be instead. Raises `RowError`."""
    raise RowError(
        f"{pointer} cannot be sent to a Chat Completions endpoint; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )


def refuse_stream(extra_body: dict[str, Any] | None) -> dict[str, Any] | None:
    """The configured `extra_body`. Raises ConfigError where it asks for a stream."""
    if extra_body and extra_body.get("stream"):
        raise ConfigError(
            "extra_body.stream: true: every answer would be a stream, and is read in one piece",
            hint="take `stream` out of extra_body",
        )
    return extra_body
