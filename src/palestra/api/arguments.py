"""Refuses wrong arguments of Python functions with an error of Palestra: names that a function lacks,
and values of another type.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from palestra.config import did_you_mean
from palestra.errors import BadInput, ConfigError, UnknownArgument
from palestra.schema import JsonObject

P = ParamSpec("P")
T = TypeVar("T")


def checks_names(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, with UnknownArgument instead of Python's TypeError for a wrong name."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    def check(keywords: Iterable[str]) -> None:
        __tracebackhide__ = True
        for name in keywords:
            if name not in names:
                raise UnknownArgument(
                    f"{function.__name__} has no argument {name!r}{did_you_mean(name, names)}",
                    argument=name,
                    hint=f"its arguments: {', '.join(names)}",
                )

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        check(kwargs)
        return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
        check(kwargs)
        try:
            return await cast(Any, function(*args, **kwargs))
        except BadInput as error:  # without the frames of Palestra, as in `run_blocking`
            raise error.with_traceback(None) from error.__cause__

    # so that inspect knows it for what it is
    return cast(Any, awaited) if inspect.iscoroutinefunction(function) else checked


def check_counts(**counts: tuple[int | None, int]) -> None:
    """Raise ConfigError for a number below its least value, with the name of the parameter."""
    for name, (value, least) in counts.items():
        if value is not None and (not isinstance(value, int) or value < least):
            raise ConfigError(f"{name}={value!r} should be a whole number from {least} on")


def check_mappings(**mappings: object) -> None:
    """Raise ConfigError for a value that is neither None nor a mapping."""
    for name, value in mappings.items():
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"{name}={value!r} should be a mapping, such as {{'name': value}}")


def path_of(name: str, value: object) -> Path:
    """Return the argument `name` as a path. Raises ConfigError: it is none."""
    if isinstance(value, str | os.PathLike) and (text := str(os.fspath(value))):
        return Path(text)
    raise ConfigError(f"{name}={value!r} should be a path")


def items_of(name: str, value: Any, item: str) -> list[Any]:
    """Return the items of the argument `name`. `item`: what one of them is, for the error.

    Raises ConfigError: the value is not a sequence.
    """
    if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
        raise ConfigError(f"{name}={value!r} should be a list, each item {item}")
    return [*value]


def rows_of(name: str, value: Any) -> Sequence[JsonObject]:
    """Return the rows of the argument `name`. Raises ConfigError: they are none."""
    rows = items_of(name, value, "a mapping of a row's fields")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ConfigError(f"{name}: item {number} is {row!r}, not a mapping of a row's fields")
    if not rows:
        raise ConfigError(f"{name} has no rows")
    return rows
