"""The forms in which an author may write a method, each as a plain function.

A method may be a function, a static or class method, a partial (`functools.partialmethod`, or
`functools.partial`), or an object with `__call__`. Python binds each of them in another way, and
what describes a function (its name, types and signature) is elsewhere in each. `as_function` makes
one function of any form, so that nothing else needs to know of them.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.server.author_code import layers_of, place_of

SELF: Final = "self"
SELF_NAMES: Final = frozenset({SELF, "_", "cls", "this"})
"""First parameters that mean the object, also where a row has a field of this name."""
SPREAD: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})
"""The kinds of `*args` and `**kwargs`."""
_PARTIALS: Final = (functools.partial, functools.partialmethod)
_READ_AS_VALUES: Final = (property, functools.cached_property)


def refuse_form(cls: type[Any], name: str) -> None:
    """Raise ConfigError when the attribute `name` of `cls` cannot be called as a method."""
    member = inspect.getattr_static(cls, name)
    if isinstance(member, type):
        what = "a class"
    elif isinstance(member, _READ_AS_VALUES):
        what = "a property"
    elif isinstance(member, functools.singledispatchmethod):
        what = "a singledispatchmethod"
    else:
        return
    raise ConfigError(
        f"{place_of(member)}{cls.__name__}.{name} is {what}, and not a method",
        hint=f"write def {name}(self, …)",
    )


def is_partial_or_object(member: Any) -> bool:
    """Whether an attribute is called as a method, and is no function; or a static method of such."""
    if isinstance(member, staticmethod):
        return is_partial_or_object(member.__func__)
    return isinstance(member, _PARTIALS) or (callable(member) and not _is_bound_by_python(member))


def as_function(cls: type[Any], name: str) -> Callable[..., Any]:
    """Return the method `name` of `cls` as a function of that name, whose first parameter is the
    object.

    The arguments that a partial fills are none of its parameters. Raises ConfigError: the attribute
    cannot be called.
    """
    refuse_form(cls, name)
    member = inspect.getattr_static(cls, name)
    if isinstance(member, FunctionType) and member.__name__ == name:
        return member

    *_, wrapper, innermost = (None, *layers_of(member))

    @functools.wraps(innermost)
    def function(self: Any, /, *args: Any, **arguments: Any) -> Any:
        return _bound(member, self)(*args, **arguments)

    function.__name__ = name
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    if getattr(type(wrapper), "__call__", None) is innermost:  # noqa: B004  # of an object
        function.__doc__ = function.__doc__ or type(wrapper).__doc__
    function.__dict__["__signature__"] = inspect.Signature(list(_parameters(cls, name)))
    return function


def _bound(member: Any, obj: Any) -> Callable[..., Any]:
    """Return what a call of the attribute `member` of an object calls."""
    if isinstance(member, functools.partial):  # Python 3.14 binds it, earlier ones do not
        return functools.partial(member, obj) if _takes_object(member) else member
    if _is_bound_by_python(member):
        return member.__get__(obj, type(obj))  # type: ignore[no-any-return]
    return member  # type: ignore[no-any-return]


def _is_bound_by_python(member: Any) -> bool:
    """Whether Python makes another object of an attribute when it is read, as of a function."""
    # A bound method of another object is what it is, although it has `__get__` since Python 3.13.
    return hasattr(type(member), "__get__") and not isinstance(member, MethodType)


def _takes_object(member: Any) -> bool:
    """Whether the object of a call is the first argument of what `member` wraps."""
    if isinstance(member, staticmethod | classmethod):
        return False
    if isinstance(member, functools.partialmethod):
        return _takes_object(member.func) or not _is_bound_by_python(member.func)
    if isinstance(member, functools.partial):
        return next(iter(inspect.signature(member).parameters), "") == SELF
    return _is_bound_by_python(member)


def _parameters(cls: type[Any], name: str) -> Iterator[inspect.Parameter]:
    member = inspect.getattr_static(cls, name)
    if not _takes_object(member):
        yield inspect.Parameter(SELF, inspect.Parameter.POSITIONAL_ONLY)
    filled = {key for layer in layers_of(member) for key in _filled_by(layer)}
    for parameter in inspect.signature(getattr(cls, name)).parameters.values():
        if parameter.name not in filled:
            yield parameter


def _filled_by(layer: Any) -> Iterator[str]:
    return iter(layer.keywords if isinstance(layer, _PARTIALS) else ())
