"""What a JSON schema wants at a place, for notations that write every scalar as text.

Only a reading aid: whether a value is valid is the validator's to say.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pydantic import JsonValue

_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
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
        return self._below(
            properties[name]
            for schema in self._schemas
            if isinstance(properties := schema.get("properties"), dict) and name in properties
        )

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

    def item(self) -> "Shape":
        """What it wants of a list's items."""
        return self._below(schema["items"] for schema in self._schemas if "items" in schema)

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


def _types(schema: dict[str, JsonValue]) -> list[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    return [
        name
        for name, keyword in (("object", "properties"), ("array", "items"))
        if keyword in schema
    ]


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


def _target(reference: JsonValue, root: JsonValue) -> JsonValue:
    """Where a local reference leads; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target
