"""The JSON Schema that a server publishes for a body, with marks where the schema is stricter than
the server.

A request model may change its input before its fields are checked (validators of mode before, wrap
or plain), accept a field under several names, or accept values that JSON Schema cannot describe: a
number as a date, a list with duplicates as a set. The server accepts more than the schema for these
fields, so a check of rows against the schema must skip them.

A field is unmarked only if all its parts are of kinds that JSON Schema describes exactly.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from palestra.schema import TRANSFORMS, TRANSFORMS_VALUE, JsonDict, JsonObject, OpenApiSchema

_PLAIN = frozenset(
    {
        "any",
        "bool",
        "default",
        "definition-ref",
        "dict",
        "float",
        "function-after",
        "int",
        "list",
        "literal",
        "model",
        "model-field",
        "model-fields",
        "none",
        "nullable",
        "str",
        "tagged-union",
        "tuple",
        "typed-dict",
        "typed-dict-field",
        "union",
    }
)
"""Kinds of pydantic's core schema whose JSON Schema rejects no value that they accept."""
_AROUND_FIELDS = frozenset({"definition-ref", "definitions", "function-after", "model"})
_BELOW = (
    "schema",
    "items_schema",
    "keys_schema",
    "values_schema",
    "choices",
    "fields",
    "extras_schema",
    "extras_keys_schema",
)
"""The keys of a core schema that contain further core schemas."""
_RENAMING = ("validate_by_name", "validate_by_alias")
_CHANGING_TEXT = (
    "str_strip_whitespace",
    "str_to_lower",
    "str_to_upper",
    "coerce_numbers_to_str",
)
"""Settings of a model's config that change every string in the model."""
_UNLIKE_JSON_SCHEMA = {
    # Patterns are of another dialect there.
    "str": ("strip_whitespace", "to_lower", "to_upper", "coerce_numbers_to_str", "pattern"),
    "float": ("multiple_of",),  # rounds
    "model": ("custom_init",),
}
"""Constraints that make a plain kind differ from its JSON Schema."""


def describe(app: FastAPI, finish: Callable[[JsonDict], None]) -> None:
    """Make the app call `finish` on its OpenAPI document once, when the document is first
    requested.
    """
    make_document = app.openapi
    finished: JsonDict = {}

    def openapi() -> JsonDict:
        if not finished:
            document = make_document()
            finish(document)
            finished.update(document)
        return finished

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def published_schema(model: type[BaseModel]) -> JsonDict:
    """Return the JSON Schema of `model`, with the mark `TRANSFORMS` on each field that changes its
    input.

    The mark is on the schema itself when the model as a whole changes its input.
    """
    schema = model.model_json_schema(schema_generator=OpenApiSchema)
    core: Any = model.__pydantic_core_schema__
    definitions = {item["ref"]: item for item in core.get("definitions", ())}
    model_fields = _fields(core, definitions)
    if model_fields is None:
        return {**schema, TRANSFORMS: True}
    fields, text_changes = model_fields
    properties = schema.get("properties", {})
    for name, field in fields.items():
        if _transforms(field, definitions, frozenset(), text_changes=text_changes):
            # Under another name it may be there after all.
            renamed = isinstance(field.get("validation_alias"), list)
            mark = True if renamed else TRANSFORMS_VALUE
            for field_name in _names(name, field) & properties.keys():
                properties[field_name] = {**properties[field_name], TRANSFORMS: mark}
    return schema


def _fields(node: Any, definitions: JsonObject) -> tuple[JsonDict, bool] | None:
    """Return the fields of a model, and whether the model changes every string.

    None when a validator changes the input before the fields are checked.
    """
    text_changes = False
    while node["type"] != "model-fields":
        if node["type"] not in _AROUND_FIELDS or _renames(node) or node.get("custom_init"):
            return None
        text_changes = text_changes or _changes_text(node)
        node = (
            definitions[node["schema_ref"]] if node["type"] == "definition-ref" else node["schema"]
        )
    around = {**node, "fields": {}}
    if _transforms(around, definitions, frozenset(), text_changes=text_changes):
        return None
    return node["fields"], text_changes


def _names(name: str, field: JsonObject) -> set[str]:
    """Return every name that a field may have in the JSON Schema."""
    alias = field.get("validation_alias", name)
    paths = alias if isinstance(alias, list) else [alias]
    return {name, *(str(path[0] if isinstance(path, list) else path) for path in paths)}


def _transforms(
    node: Any, definitions: JsonObject, visited: frozenset[str], *, text_changes: bool
) -> bool:
    """Whether the JSON Schema of `node` may reject a value that `node` accepts."""
    kind: str = node["type"]
    if kind == "definition-ref":
        ref: str = node["schema_ref"]
        return ref not in visited and (
            ref not in definitions
            or _transforms(
                definitions[ref], definitions, visited | {ref}, text_changes=text_changes
            )
        )
    text_changes = text_changes or _changes_text(node)
    return (
        kind not in _PLAIN
        or (kind == "str" and text_changes)
        or any(node.get(constraint) for constraint in _UNLIKE_JSON_SCHEMA.get(kind, ()))
        or _takes_more(node)
        or any(
            _transforms(below, definitions, visited, text_changes=text_changes)
            for below in _below(node)
        )
    )


def _takes_more(node: JsonObject) -> bool:
    kind: str = node["type"]
    if kind == "literal":  # True is 1, members of an enum have values
        return not all(type(item) is str or item is None for item in node["expected"])
    if kind == "default":
        return bool(node.get("on_error", "raise") != "raise")
    if kind == "tuple":
        return "variadic_item_index" in node and len(node["items_schema"]) > 1
    if kind == "dict":  # other keys change, and may become one
        keys: str = node.get("keys_schema", {"type": "any"})["type"]
        return keys not in {"any", "str"}
    return isinstance(node.get("validation_alias"), list) or _renames(node)


def _renames(node: JsonObject) -> bool:
    return any(name in node.get("config", {}) for name in _RENAMING)


def _changes_text(node: JsonObject) -> bool:
    return any(node.get("config", {}).get(name) for name in _CHANGING_TEXT)


def _below(node: JsonObject) -> Iterator[Any]:
    for key in _BELOW:
        below = node.get(key, ())
        if isinstance(below, Mapping):
            below = [below] if isinstance(below.get("type"), str) else list(below.values())
        for item in below:
            yield item[0] if isinstance(item, tuple) else item  # a choice may have a label
