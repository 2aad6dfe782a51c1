"""What a JSON schema wants at a place, for notations that write every scalar as text.

Only a reading aid: whether a value is valid is the validator's to say.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pydantic import JsonValue

MOST_LEVELS: Final = 100
"""Of lists and objects within each other. Validators recurse; no schema of ours comes near."""


class NoDocument(Exception):
    """A text that is no document of its notation, in a sentence for the one who wrote it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_CONDITIONS: Final = ("if", "then", "else")
_IMPLIED: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
"""The type that a keyword speaks of, for schemas that name none."""
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_BOOLEANS: Final = {"true": True, "false": False}


class Shape:
    """A place in a schema, with local references and branches followed."""

    def __init__(self, schema: JsonValue, root: JsonValue = None) -> None:
        self._root = schema if root is None else root
        self._schemas = list(_spread(schema, self._root))

    def wants(self, *types: str) -> bool:
        """Whether one of the types is among those it names, or those that its keywords imply."""
        return any(name in types for schema in self._schemas for name in _types(schema))

    def property(self, name: str) -> "Shape":
        """What it wants of a property."""
        return self._below(found for schema in self._schemas for found in _of_name(schema, name))

    def has_property(self, name: str) -> bool:
        """Whether it knows one of this name."""
        return any(
            isinstance(properties := schema.get("properties"), dict) and name in properties
            for schema in self._schemas
        )

    def required(self) -> set[str]:
        """Names of properties that must be there."""
        return {
            name
            for schema in self._schemas
            if isinstance(names := schema.get("required"), list)
            for name in names
            if isinstance(name, str)
        }

    def item(self, place: int) -> "Shape":
        """What it wants of a list's item; the first is in place 0."""
        return self._below(found for schema in self._schemas for found in _at(schema, place))

    def _below(self, schemas: Iterator[JsonValue]) -> "Shape":
        return Shape({"anyOf": list(schemas)}, self._root)


def scalar(text: str, shape: Shape) -> JsonValue:
    """A text as the first of null, boolean, integer and number that it can be, else as it is."""
    return scalar_reader(shape)(text)


def scalar_reader(shape: Shape) -> Callable[[str], JsonValue]:
    """`scalar` for many texts at one place."""
    null, boolean = shape.wants("null"), shape.wants("boolean")
    number = shape.wants("number")
    integer = number or shape.wants("integer")

    def read(text: str) -> JsonValue:
        bare = text.strip()
        if null and bare in {"", "null"}:
            return None
        if boolean and bare.lower() in _BOOLEANS:
            return _BOOLEANS[bare.lower()]
        if integer and _INTEGER.fullmatch(bare):
            return int(bare)
        if number and _NUMBER.fullmatch(bare):
            return float(bare)
        return text

    return read


def _of_name(schema: dict[str, JsonValue], name: str) -> list[JsonValue]:
    """What a schema says of a property, by its name, by patterns, or as one of the others."""
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    found = []
    if isinstance(properties, dict) and name in properties:
        found.append(properties[name])
    if isinstance(patterns, dict):
        found += [wanted for pattern, wanted in patterns.items() if _matches(pattern, name)]
    others = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
    return found or [wanted for wanted in others if isinstance(wanted, dict)]


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _at(schema: dict[str, JsonValue], place: int) -> list[JsonValue]:
    """What a schema says of the item in a place, in the words of any draft."""
    items = schema.get("items")
    first = items if isinstance(items, list) else schema.get("prefixItems")
    if isinstance(first, list) and place < len(first):
        return [first[place]]
    others = [items, schema.get("additionalItems"), schema.get("unevaluatedItems")]
    return [wanted for wanted in others if isinstance(wanted, dict)]


def _types(schema: dict[str, JsonValue]) -> list[str]:
    """The types that a schema names, or else those of the values and parts that it allows."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    allowed = values if isinstance(values, list) else []
    implied = [name for keyword, name in _IMPLIED.items() if keyword in schema]
    return implied + [_type_of(value) for value in allowed]


def _type_of(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _spread(schema: JsonValue, root: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """A schema with all that it refers to at the same place, each once."""
    waiting, seen = [schema], set[int]()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting.append(_target(each.get("$ref"), root))
        for name in _BRANCHES:
            if isinstance(branches := each.get(name), list):
                waiting.extend(branches)
        waiting.extend(each.get(name) for name in _CONDITIONS)


def _target(reference: JsonValue, root: JsonValue) -> JsonValue:
    """Where a local reference leads; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target
