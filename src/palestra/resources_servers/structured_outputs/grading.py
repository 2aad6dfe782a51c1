"""Parse and validate one document; runs in a worker process.

Both steps run mostly in native code, which holds the interpreter's lock and cannot be stopped from
inside the process. The model's text can make them slow.

A schema may refer only to itself and to the published drafts; nothing is fetched. Formats are only
annotations, as in the drafts. Patterns with lookaround are matched by backtracking, and references
with branches can double the work at every level of a value.
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
"""Replaces the value in messages, because the value may be a whole document."""


class BadSchema(Exception):
    """Raised when the row's schema is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@final
class Schema:
    """A valid schema. Raises BadSchema: the schema is not valid.

    `schema`: JSON text or an object.
    """

    def __init__(self, schema: JsonValue) -> None:
        self.value = _decoded(schema)
        try:
            self._validator = _made_validator(self.value)
        except ValidationError as error:
            raise BadSchema(_sentence(error)) from None
        except ValueError as error:
            raise BadSchema(str(error)[:LONGEST_MESSAGE]) from None

    def problem(self, value: JsonValue) -> str | None:
        """Describe the first error of a value in one sentence, with its place; None when it is
        valid.
        """
        try:
            self._validator.validate(value)
        except ValidationError as error:
            return _sentence(error)
        except ValueError as error:
            return f"it cannot be validated: {error}"[:LONGEST_MESSAGE]
        return None


def _made_validator(schema: dict[str, JsonValue]) -> Any:
    """Build a validator that fetches nothing. Patterns are matched in linear time where possible."""
    try:
        return _validator(schema, RegexOptions())
    except ValidationError as error:
        if not isinstance(error.kind, ValidationErrorKind.Format):
            raise
    return _validator(schema, FancyRegexOptions())


def _validator(schema: dict[str, JsonValue], patterns: RegexOptions | FancyRegexOptions) -> Any:
    return validator_for(schema, pattern_options=patterns, retriever=_refuse, mask=MASK)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema, and external references are not fetched")


def _sentence(error: ValidationError) -> str:
    pointer = "".join(f"/{step}" for step in error.instance_path)
    return f"{pointer or 'the whole'}: {error.message}"[:LONGEST_MESSAGE]


def _decoded(schema: JsonValue) -> dict[str, JsonValue]:
    if isinstance(schema, str):
        try:
            schema = orjson.loads(schema)
        except orjson.JSONDecodeError as error:
            raise BadSchema(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise BadSchema("a schema is a JSON object")
    return schema


VALID, WRONG, BAD_SCHEMA = "valid", "wrong", "bad_schema"
MOST_TOLD: Final = 400
"""The longest error message, in characters."""


def grade_document(schema_json: JsonValue, notation: Notation, text: str) -> tuple[str, str]:
    """Grade the text of an answer: VALID, or WRONG or BAD_SCHEMA with a message."""
    try:
        schema = Schema(schema_json)
        return _graded(schema, read_document(text, notation, Shape(schema.value)))
    except BadSchema as error:
        return BAD_SCHEMA, error.message
    except NoDocument as error:
        return WRONG, error.message[:MOST_TOLD]


def grade_arguments(schema_json: JsonValue, arguments: str, key: str | None) -> tuple[str, str]:
    """Grade the arguments of a tool call, or its only argument `key`, like `grade_document`."""
    try:
        schema = Schema(schema_json)
        return _graded(schema, [read_argument(arguments, key)])
    except BadSchema as error:
        return BAD_SCHEMA, error.message
    except NoDocument as error:
        return WRONG, error.message[:MOST_TOLD]


def _graded(schema: Schema, readings: list[JsonValue]) -> tuple[str, str]:
    """Return VALID when any reading is valid, else WRONG and the problem of the first reading."""
    problems = [schema.problem(value) for value in readings]
    problem = None if None in problems else problems[0]
    return (VALID, "") if problem is None else (WRONG, problem)
