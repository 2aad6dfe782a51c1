"""JSON schemas of rows: whether one is in order, and what is wrong with a value.

A schema refers to nothing outside of itself and the published drafts; nothing is fetched. Formats
are annotations, as the drafts have it.

Most validations take a time that is linear in schema and value. Two may not: a schema with
references and branches can double the work at every level of a value, and a pattern that looks
around is searched by backtracking. Those are not `bounded`, and are run where they can be killed.
"""

from dataclasses import dataclass
from typing import Final

import orjson
from jsonschema_rs import ValidationError, ValidationErrorKind
from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.steps import (
    LONGEST_MESSAGE,
    made_validator,
    problem_of,
    sentence,
)

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_BRANCHES: Final = frozenset(
    {
        "allOf",
        "anyOf",
        "contains",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)


class BadSchema(Exception):
    """What a row has is no schema that can be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that is in order."""

    value: dict[str, JsonValue]
    bounded: bool
    """Whether validation takes a time linear in the value, so that it needs no limit."""

    def problem(self, value: JsonValue) -> str | None:
        """What is wrong with a value, in a sentence with its place; None when it is valid."""
        return problem_of(self.value, value)


def made_schema(given: JsonValue) -> Schema:
    """The schema that a row gives as JSON text or as an object. Raises BadSchema."""
    value = _decoded(given)
    if not isinstance(value, dict):
        raise BadSchema("a schema is a JSON object")
    keywords = _keywords(value)
    bounded = keywords.isdisjoint(_BRANCHES) or keywords.isdisjoint(_REFERENCES)
    try:
        if not _has_validator(value, backtracking=False):
            bounded = not _has_validator(value, backtracking=True)
    except ValidationError as error:
        raise BadSchema(sentence(error)) from None
    except ValueError as error:
        raise BadSchema(str(error)[:LONGEST_MESSAGE]) from None
    return Schema(value, bounded)


def _has_validator(schema: JsonValue, *, backtracking: bool) -> bool:
    """Whether it can be validated with; False when it is a pattern that asks for backtracking."""
    try:
        made_validator(schema, backtracking=backtracking)
    except ValidationError as error:
        if backtracking or not isinstance(error.kind, ValidationErrorKind.Format):
            raise
        return False
    return True


def _decoded(given: JsonValue) -> JsonValue:
    if not isinstance(given, str):
        return given
    try:
        value: JsonValue = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        raise BadSchema(f"the schema is not JSON: {error}") from None
    return value


def _keywords(schema: JsonValue) -> set[str]:
    """All keys anywhere in it; some may be names of properties."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            found.update(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return found
