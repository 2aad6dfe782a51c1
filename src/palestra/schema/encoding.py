"""Encoding what we send and store: objects of the schema, plain JSON, or a mix of both."""

from typing import Any

import orjson
from pydantic import BaseModel


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        # Fields that nobody set are not invented on the wire. A value of another type than
        # announced (a null among log-probabilities) is sent as it is, without a warning each time.
        return value.model_dump(mode="json", exclude_unset=True, warnings=False)
    raise TypeError(f"{type(value).__name__} is not JSON")


def fields_of(model: BaseModel) -> dict[str, Any]:
    """The top level of a model as a mapping, its values left as objects.

    Holds every field that was set, and defaults that say something: an author's
    `accuracy: bool = False` is an answer, an absent optional is not.
    """
    given = model.model_fields_set
    declared = {
        name: value
        for name, value in model.__dict__.items()
        if name in given or (value is not None and name in type(model).model_fields)
    }
    return {**declared, **(model.model_extra or {})}


def encode_json(value: Any) -> bytes:
    """JSON bytes of schema objects, plain values, or mappings that hold both.

    Not-a-number becomes null, as JSON has no such value; a reward is therefore checked to be
    finite before it is encoded.
    """
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def to_plain(value: Any) -> Any:
    """The same value as plain dicts, lists and scalars, without a detour through text."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True, warnings=False)
    if isinstance(value, dict):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return value
