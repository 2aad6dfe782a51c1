"""The JSON Schema that a server publishes for a body, marked where it cannot tell the whole truth.

A request model may look at its input before its fields do (validators of mode before, wrap or
plain) or take a field under several names. Whoever holds a row against the schema must leave
such fields out: the server takes more than the schema says.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from palestra.schema import TRANSFORMS

_TRANSFORMING = frozenset({"function-before", "function-wrap", "function-plain"})


def published_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `model`, with `TRANSFORMS: true` on each field that changes its input.

    On the schema itself when the model does.
    """
    schema = model.model_json_schema()
    core: Any = model.__pydantic_core_schema__
    named = {item["ref"]: item for item in core.get("definitions", ())}
    fields = _fields(core, named)
    if fields is None:
        return {**schema, TRANSFORMS: True}
    properties = schema.get("properties", {})
    for name, field in fields.items():
        if _transforms(field, named, frozenset()) and name in properties:
            properties[name] = {**properties[name], TRANSFORMS: True}
    return schema


def _fields(node: Any, named: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a model; None when something looks at the input before they do."""
    while node["type"] != "model-fields":
        if node["type"] in _TRANSFORMING or node.get("config", {}).get("validate_by_name"):
            return None
        node = named[node["schema_ref"]] if node["type"] == "definition-ref" else node.get("schema")
        if node is None:
            return None
    fields: dict[str, Any] = node["fields"]
    return fields


def _transforms(node: Any, named: Mapping[str, Any], seen: frozenset[str]) -> bool:
    if isinstance(node, list | tuple):
        return any(_transforms(item, named, seen) for item in node)
    if not isinstance(node, dict):
        return False
    kind = node.get("type")
    if not isinstance(kind, str):  # a map of fields, one of which is called so
        kind = ""
    if kind in _TRANSFORMING or isinstance(node.get("validation_alias"), list):
        return True
    if kind == "definition-ref":
        ref = node["schema_ref"]
        return ref not in seen and _transforms(named[ref], named, seen | {ref})
    return any(_transforms(value, named, seen) for value in node.values())
