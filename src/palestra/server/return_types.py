"""What the return annotation of an author's function promises."""

import inspect
from collections.abc import Awaitable, Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints


def promised_value(function: Callable[..., Any]) -> str:
    """Return the return annotation of a function, as its author writes it, when None is certain not to
    fit; else an empty text.
    """
    try:
        kind = get_type_hints(function, include_extras=True).get("return", Any)
    except Exception:  # a name that does not exist, or a type that cannot be made
        return ""
    return inspect.formatannotation(kind) if _excludes_none(kind) else ""


def _excludes_none(kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated or isinstance(kind, NewType):
        return _excludes_none(arguments[0] if arguments else kind.__supertype__)
    if origin in {Union, UnionType}:
        return all(map(_excludes_none, arguments))
    if origin is Literal:
        return None not in arguments
    return _is_class_without_none(origin or kind)


def _is_class_without_none(cls: Any) -> bool:
    if cls is Any or not isinstance(cls, type) or issubclass(cls, Awaitable):
        return False  # what is awaited may be None
    try:
        return not issubclass(NoneType, cls)
    except Exception:  # of a protocol that is not checked at run time, or of an author's metaclass
        return False
