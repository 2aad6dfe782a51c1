"""Objects of the schema made from values that are known to be right, at half the cost or less.

Pydantic's `model_construct` walks over every field for aliases and defaults; the types made
here have no aliases, and every default that is a mutable object is passed explicitly.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

Made = TypeVar("Made", bound=BaseModel)

# Writing an object's slots as `object.__setattr__` does, without the search for them.
_set_fields = vars(BaseModel)["__dict__"].__set__
_set_given = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private = vars(BaseModel)["__pydantic_private__"].__set__


def maker(kind: type[Made]) -> Callable[..., Made]:
    """What makes objects of `kind`: `make(values, extra)`.

    `values` are its set fields, and must hold every field that is required or whose default is
    made by a factory; `extra` are its unknown fields, none by default.
    """
    blank = {
        name: None if field.is_required() else field.default
        for name, field in kind.model_fields.items()
    }
    new = object.__new__

    def make(values: dict[str, Any], extra: dict[str, Any] | None = None) -> Made:
        instance = new(kind)
        # Every field, in the order of its declaration.
        _set_fields(instance, blank | values)
        _set_given(instance, {*values, *extra} if extra else set(values))
        _set_extra(instance, extra or {})
        _set_private(instance, None)
        return instance

    return make


def changed(model: Made, values: dict[str, Any]) -> Made:
    """`model.model_copy(update=values)` for fields that the type declares."""
    copy = object.__new__(type(model))
    _set_fields(copy, model.__dict__ | values)
    _set_given(copy, {*model.__pydantic_fields_set__, *values})
    _set_extra(copy, _copied(model.__pydantic_extra__))
    _set_private(copy, _copied(model.__pydantic_private__))
    return copy


def _copied(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if extra is None else dict(extra)
