"""Check before anything runs that an author's methods can be called as Palestra calls them: by name,
on an object that was made without arguments, and for a value that is returned.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palestra.errors import ConfigError
from palestra.server.author_code import code_of, place_of
from palestra.server.method_forms import SPREAD


def refuse_uncallable_init(cls: type[Any]) -> None:
    """Raise ConfigError when an object of `cls` cannot be made without arguments."""
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    init = vars(owner)["__init__"]
    if owner is object or not inspect.isfunction(init):
        return
    parameters = list(inspect.signature(init).parameters.values())[1:]
    required = [p for p in parameters if p.default is p.empty and p.kind not in SPREAD]
    if required:
        names = ", ".join(parameter.name for parameter in required)
        name = required[0].name
        raise ConfigError(
            f"{_init_place(owner, init)}{owner.__name__}.__init__ needs {names}, but the object of a "
            "rollout is made without arguments",
            hint=f"give {name} a default, or make it a setting: an attribute with a type and a value, "
            f"such as {name}: int = 3; fields of the row are parameters of start(self, task)",
        )


def _init_place(owner: type[Any], init: Callable[..., Any]) -> str:
    """Return where the `__init__` of a class is; for one that a decorator made, where the class is."""
    code = code_of(init)
    if code is not None and Path(code.co_filename).is_file():
        return place_of(init)
    return place_of(owner)


def refuse_positional_only(name: str, function: Callable[..., Any], bound: Any) -> None:
    """Raise ConfigError when an author's method has parameters that cannot be filled by name.

    `bound`: the method of an object, so that `self` is none of its parameters.
    """
    parameters = inspect.signature(bound).parameters.values()
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        own_names = [
            str(p).partition(":")[0] for p in inspect.signature(function).parameters.values()
        ]
        raise ConfigError(
            f"{place_of(function)}{name} has positional-only parameters, which cannot be filled by "
            "name",
            hint=f"leave out the /: def {name}({', '.join(own_names)})",
        )


def refuse_yield(name: str, function: Callable[..., Any]) -> None:
    """Raise ConfigError when an author's method has a `yield`, so that a call runs none of its code."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"{place_of(function)}{name} has a yield, so that a call returns a generator and runs no "
            "code",
            hint="return the value; of several, a list",
        )
