"""Create schema objects from valid values without validation, at half the cost or less.

Pydantic's `model_construct` checks every field for aliases and defaults. The types created here
have no aliases, and mutable defaults are always passed explicitly.
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
    """Return a function `make(values, extra)` that creates objects of `kind`.

    `values`: the fields to set; they must include every field that is required or has a default
    factory. `extra`: unknown fields; default: none.
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
    """Return the same as `model.model_copy(update=values)`, for declared fields only."""
    copy = object.__new__(type(model))
    _set_fields(copy, model.__dict__ | values)
    _set_given(copy, {*model.__pydantic_fields_set__, *values})
    _set_extra(copy, _copied(model.__pydantic_extra__))
    _set_private(copy, _copied(model.__pydantic_private__))
    return copy


def _copied(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if extra is None else dict(extra)
