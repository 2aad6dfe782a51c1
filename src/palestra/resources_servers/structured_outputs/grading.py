"""What runs in a worker process: reading a document and holding it to its schema.

Both are native code in good part, which nothing stops from inside its process and which holds
the interpreter's lock. What makes them slow is the model's to choose.

A schema refers to nothing outside of itself and the published drafts; nothing is fetched. Formats
are annotations, as the drafts have it. Patterns that look around are searched by backtracking,
and references with branches can double the work at every level of a value.
"""

from typing import Any, Final, final

import orjson
from jsonschema_rs import (
    FancyRegexOptions,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
    validator_for,
)
from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.documents import (
    Notation,
    read_argument,
    read_document,
)
from palestra.resources_servers.structured_outputs.shapes import NoDocument, Shape

LONGEST_MESSAGE: Final = 300
MASK: Final = "the value"
"""Stands for the value in messages: it may be a whole document."""


class BadSchema(Exception):
    """What a row has is no schema that can be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@final
class Schema:
    """A schema that is in order. Raises BadSchema for what is none.

    `given`: JSON text, or an object.
    """

    def __init__(self, given: JsonValue) -> None:
        self.value = _decoded(given)
        try:
            self._validator = _made_validator(self.value)
        except ValidationError as error:
            raise BadSchema(_sentence(error)) from None
        except ValueError as error:
            raise BadSchema(str(error)[:LONGEST_MESSAGE]) from None

    def problem(self, value: JsonValue) -> str | None:
        """What is wrong with a value first, in a sentence with its place; None when it is valid."""
        try:
            self._validator.validate(value)
        except ValidationError as error:
            return _sentence(error)
        except ValueError as error:
            return f"it cannot be validated: {error}"[:LONGEST_MESSAGE]
        return None


def _made_validator(schema: dict[str, JsonValue]) -> Any:
    """A validator that fetches nothing; by the linear matcher, where its patterns allow it."""
    try:
        return _validator(schema, RegexOptions())
    except ValidationError as error:
        if not isinstance(error.kind, ValidationErrorKind.Format):
            raise
    return _validator(schema, FancyRegexOptions())


def _validator(schema: dict[str, JsonValue], patterns: RegexOptions | FancyRegexOptions) -> Any:
    return validator_for(schema, pattern_options=patterns, retriever=_refuse, mask=MASK)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema, and nothing is fetched")


def _sentence(error: ValidationError) -> str:
    place = "".join(f"/{step}" for step in error.instance_path)
    return f"{place or 'the whole'}: {error.message}"[:LONGEST_MESSAGE]


def _decoded(given: JsonValue) -> dict[str, JsonValue]:
    if isinstance(given, str):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError as error:
            raise BadSchema(f"the schema is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise BadSchema("a schema is a JSON object")
    return given


VALID, WRONG, BAD_SCHEMA = "valid", "wrong", "bad_schema"
MOST_TOLD: Final = 400
"""Characters of what is wrong."""


def grade_document(given: JsonValue, notation: Notation, text: str) -> tuple[str, str]:
    """VALID, or WRONG or BAD_SCHEMA with what is wrong, for the text of an answer."""
    try:
        schema = Schema(given)
        return _graded(schema, read_document(text, notation, Shape(schema.value)))
    except BadSchema as error:
        return BAD_SCHEMA, error.message
    except NoDocument as error:
        return WRONG, error.message[:MOST_TOLD]


def grade_arguments(given: JsonValue, arguments: str, key: str | None) -> tuple[str, str]:
    """The same for the arguments of a tool call, or for the only one of them, named `key`."""
    try:
        schema = Schema(given)
        return _graded(schema, [read_argument(arguments, key)])
    except BadSchema as error:
        return BAD_SCHEMA, error.message
    except NoDocument as error:
        return WRONG, error.message[:MOST_TOLD]


def _graded(schema: Schema, readings: list[JsonValue]) -> tuple[str, str]:
    """VALID when one of the readings is, else what is wrong with the first."""
    problems = [schema.problem(value) for value in readings]
    found = None if None in problems else problems[0]
    return (VALID, "") if found is None else (WRONG, found)
