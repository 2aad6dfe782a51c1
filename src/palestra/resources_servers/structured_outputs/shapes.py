"""Find the types that a JSON schema expects at a place, for notations that write scalars as text.

This only helps parsing. The validator decides whether a value is valid.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pydantic import JsonValue

MOST_LEVELS: Final = 100
"""The deepest nesting of lists and objects. Validators recurse, and real schemas are far less deep.
"""


class NoDocument(Exception):
    """Raised for a text that is not valid in its notation. The message is for the author of the
    text.
    """

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
"""The type that each keyword implies, for schemas without `type`."""
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_BOOLEANS: Final = {"true": True, "false": False}


class Shape:
    """A place in a schema, with local references and branches resolved."""

    def __init__(self, schema: JsonValue, root: JsonValue = None) -> None:
        self._root = schema if root is None else root
        self._schemas = list(_spread(schema, self._root))

    def wants(self, *types: str) -> bool:
        """Whether the schema allows one of these types here, by `type` or implied by other
        keywords.
        """
        return any(name in types for schema in self._schemas for name in _types(schema))

    def property(self, name: str) -> "Shape":
        """Return the shape of the property `name`."""
        return self._below(
            subschema for schema in self._schemas for subschema in _of_name(schema, name)
        )

    def has_property(self, name: str) -> bool:
        """Whether the schema defines a property `name` here."""
        return any(
            isinstance(properties := schema.get("properties"), dict) and name in properties
            for schema in self._schemas
        )

    def required(self) -> set[str]:
        """Return the names of the required properties."""
        return {
            name
            for schema in self._schemas
            if isinstance(names := schema.get("required"), list)
            for name in names
            if isinstance(name, str)
        }

    def item(self, index: int) -> "Shape":
        """Return the shape of a list item; `index` counts from 0."""
        return self._below(
            subschema for schema in self._schemas for subschema in _at(schema, index)
        )

    def _below(self, schemas: Iterator[JsonValue]) -> "Shape":
        return Shape({"anyOf": list(schemas)}, self._root)


def scalar(text: str, shape: Shape) -> JsonValue:
    """Parse a text as null, boolean, integer or number where the schema allows it; else keep the
    text.
    """
    return scalar_reader(shape)(text)


def scalar_reader(shape: Shape) -> Callable[[str], JsonValue]:
    """Return a function like `scalar` that parses many texts for the same shape."""
    null, boolean = shape.wants("null"), shape.wants("boolean")
    number = shape.wants("number")
    integer = number or shape.wants("integer")

    def parse_scalar(text: str) -> JsonValue:
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

    return parse_scalar


def _of_name(schema: dict[str, JsonValue], name: str) -> list[JsonValue]:
    """Return the subschemas for a property: by name, by pattern, or else those for additional
    properties.
    """
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    subschemas = []
    if isinstance(properties, dict) and name in properties:
        subschemas.append(properties[name])
    if isinstance(patterns, dict):
        subschemas += [
            subschema for pattern, subschema in patterns.items() if _matches(pattern, name)
        ]
    others = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
    return subschemas or [subschema for subschema in others if isinstance(subschema, dict)]


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _at(schema: dict[str, JsonValue], index: int) -> list[JsonValue]:
    """Return the subschemas for the item at `index`, in the keywords of any draft."""
    items = schema.get("items")
    first = items if isinstance(items, list) else schema.get("prefixItems")
    if isinstance(first, list) and index < len(first):
        return [first[index]]
    others = [items, schema.get("additionalItems"), schema.get("unevaluatedItems")]
    return [subschema for subschema in others if isinstance(subschema, dict)]


def _types(schema: dict[str, JsonValue]) -> list[str]:
    """Return the types that a schema names, or else those that its values and keywords imply."""
    type_names = schema.get("type")
    if isinstance(type_names, str):
        return [type_names]
    if isinstance(type_names, list):
        return [name for name in type_names if isinstance(name, str)]
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
    """Yield a schema and all schemas that it refers to for the same place, each once."""
    waiting, visited = [schema], set[int]()
    while waiting:
        subschema = waiting.pop()
        if not isinstance(subschema, dict) or id(subschema) in visited:
            continue
        visited.add(id(subschema))
        yield subschema
        waiting.append(_target(subschema.get("$ref"), root))
        for name in _BRANCHES:
            if isinstance(branches := subschema.get(name), list):
                waiting.extend(branches)
        waiting.extend(subschema.get(name) for name in _CONDITIONS)


def _target(reference: JsonValue, root: JsonValue) -> JsonValue:
    """Return the target of a local reference; None for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target
