"""Encode data to send or store: schema objects, plain JSON, or a mix of both.

Fields that were not set are not written.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from palestra.schema import chat, items, protocol, responses

WIRE_TYPES = frozenset(
    kind
    for module in (items, responses, protocol, chat)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, items.WireModel)
)
"""Types whose fields are written to JSON unchanged: no aliases, no serializers, no excluded fields.
"""

_ONLY_JSON = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def encode_json(value: Any) -> bytes:
    """Return schema objects, plain values, or mappings of both as JSON bytes.

    NaN becomes null, because JSON has no NaN; so a reward must be checked to be finite before
    encoding. Raises TypeError: a value cannot be encoded.
    """
    try:
        return orjson.dumps(value, default=encodable, option=_ONLY_JSON)
    except TypeError:
        # A date in a field of an author's, or a mapping with numbers for keys: pydantic knows
        # many more types, at twice the cost for all.
        return orjson.dumps(value, default=_dumped, option=orjson.OPT_NON_STR_KEYS)


def to_plain(value: Any) -> Any:
    """Return the value as plain dicts, lists and scalars, without encoding it to text."""
    if isinstance(value, BaseModel):
        return _dumped(value)
    if isinstance(value, dict):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return value


def fields_of(model: BaseModel) -> dict[str, Any]:
    """Return the top-level fields of a model as a dict; the values remain objects.

    It contains every field that was set, and unset fields with a default other than None. For
    example, an author's default `accuracy: bool = False` is included, an absent optional field is
    not.
    """
    set_names = model.model_fields_set
    declared = {
        name: value
        for name, value in model.__dict__.items()
        if name in set_names or (value is not None and name in type(model).model_fields)
    }
    return {**declared, **(model.model_extra or {})}


def set_fields(model: BaseModel) -> Mapping[str, Any]:
    """Return every field of a model that was set, including unknown fields; the values remain
    objects.
    """
    set_names = model.__pydantic_fields_set__
    fields = model.__dict__
    if not set_names.issuperset(fields):
        fields = {name: inner for name, inner in fields.items() if name in set_names}
    unknown = model.__pydantic_extra__
    return {**fields, **unknown} if unknown else fields


def encodable(value: Any) -> Any:
    """Return the set fields of a schema object for an encoder, at half the cost of `model_dump`.

    Raises TypeError: the value cannot be encoded.
    """
    return set_fields(value) if type(value) in WIRE_TYPES else _dumped(value)


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        # A value of another type than announced (a null among log-probabilities) is sent as it
        # is, without a warning each time.
        return value.model_dump(mode="json", exclude_unset=True, warnings=False)
    if isinstance(value, dict):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
