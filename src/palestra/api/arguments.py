"""Refuses arguments that a function lacks with an error of Palestra that names the nearest."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

from palestra.config import did_you_mean
from palestra.errors import BadInput, UnknownArgument

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
