"""Check an author's methods before anything runs: `self`, and the types of tools."""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from palestra.config import is_one_slip
from palestra.errors import ConfigError
from palestra.server.author_code import place_of
from palestra.server.environments.parameters import MEANINGS
from palestra.server.method_forms import SELF, SELF_NAMES
from palestra.server.tools import type_problem


def refuse_missing_self(
    cls: type[Any], methods: Iterable[str], tools: Iterable[str], fields: Iterable[str] = ()
) -> None:
    """Raise ConfigError when a plain method of `cls` has no parameter for the object.

    Its first parameter would be filled with the object, whatever its name. `fields`: the fields of
    the rows, once they are known. A first parameter with the name of none of them may be the object.
    """
    row_fields = frozenset(fields) - SELF_NAMES
    for name in (*methods, *tools):
        function = inspect.getattr_static(cls, name, None)
        if not inspect.isfunction(function):
            continue  # a static method, a class method, a template
        first = next(iter(inspect.signature(function).parameters.values()), None)
        if first is not None and first.kind is first.VAR_POSITIONAL:
            continue
        is_missing = first is None or first.kind is first.KEYWORD_ONLY
        if not is_missing and first is not None:
            is_missing = (
                first.name != SELF
                if name in tools
                else _is_filled_by_name(first.name) or first.name in row_fields
            )
        if is_missing:
            _raise_missing_self(cls, name, function, first)


def _is_filled_by_name(name: str) -> bool:
    return name not in SELF_NAMES and (
        name in MEANINGS or any(is_one_slip(name, filled) for filled in MEANINGS)
    )


def _raise_missing_self(
    cls: type[Any], name: str, function: Any, first: inspect.Parameter | None
) -> typing.NoReturn:
    names = [str(p).partition(":")[0] for p in inspect.signature(function).parameters.values()]
    effect = (
        "it cannot be called"
        if first is None or first.kind is first.KEYWORD_ONLY
        else f"its first parameter, {first.name}, would be the object of the rollout"
    )
    label = f"{cls.__name__}.{name}({', '.join(names)})"
    raise ConfigError(
        f"{place_of(function)}{label} has no self, so that {effect}",
        hint=f"write self first: def {name}({', '.join(['self', *names])})",
    )


def refuse_unreadable_types(tools: Mapping[str, Callable[..., Any]]) -> None:
    """Raise ConfigError when the model cannot be told the type of a tool's parameter."""
    problems = [
        f"{place_of(function)}the tool {name} has a type that cannot be used: {problem}"
        for name, function in tools.items()
        if (problem := type_problem(function))
    ]
    if problems:
        raise ConfigError(
            "; ".join(problems),
            hint="import or define the type where the file begins, or write a plain one: str, int, "
            "float, bool, list[str], dict[str, int], Literal, a dataclass or a pydantic model",
        )
