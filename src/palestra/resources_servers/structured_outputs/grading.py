"""What runs in a worker process: reading a document and holding it to its schema.

Both are native code in good part, which nothing stops from inside its process and which holds
the interpreter's lock. What makes them slow is the model's to choose.
"""

from typing import Final

from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.documents import (
    Notation,
    read_argument,
    read_document,
)
from palestra.resources_servers.structured_outputs.no_document import NoDocument
from palestra.resources_servers.structured_outputs.schemas import BadSchema, Schema
from palestra.resources_servers.structured_outputs.shapes import Shape

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
