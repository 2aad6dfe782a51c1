"""The settings of an environment: the annotated attributes of its class that have a value.

    class Shelf(Environment):
        difficulty: int = 3

`--set difficulty=5` replaces the value. It is checked against the annotation.
"""

import inspect
import math
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.server.author_code import place_of
from palestra.settings import sentence_of


def settings_of(cls: type[Any], base: type[Any]) -> dict[str, Any]:
    """Return the types of a class's settings, by name. Attributes that `base` has are none of them.

    Raises ConfigError: an annotation names a type that does not exist.
    """
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise ConfigError(
            f"{place_of(cls)}{cls.__name__}: an annotation cannot be read: {error}"
        ) from error
    return {name: hints[name] for name in _annotated(cls, base) if _is_setting(cls, name, hints)}


def _annotated(cls: type[Any], base: type[Any]) -> Iterator[str]:
    for ancestor in reversed(cls.__mro__):
        if issubclass(ancestor, base) and ancestor is not base:
            yield from (n for n in inspect.get_annotations(ancestor) if n not in dir(base))


def _is_setting(cls: type[Any], name: str, hints: Mapping[str, Any]) -> bool:
    is_constant = hints[name] is ClassVar or get_origin(hints[name]) is ClassVar
    return not name.startswith("_") and hasattr(cls, name) and not is_constant


def checked(
    cls: type[Any], base: type[Any], values: Mapping[str, Any], *, how_to_add: str
) -> dict[str, Any]:
    """Return `values`, converted to the types of the class's settings.

    `how_to_add`: how the author adds a setting, for a class that has none. Raises ConfigError: there is no such setting, or a value does not fit its type.
    """
    kinds = settings_of(cls, base)
    result: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds and hasattr(base, name) and not name.startswith("_"):
            raise ConfigError(
                f"{_file_of(cls)}{name} is an attribute of {cls.__name__}, not a setting",
                hint=f"write it in the class: {name} = …; a setting has a name of its own, such as "
                "difficulty: int = 3",
            )
        if name not in kinds:
            names = ", ".join(kinds) or f"none; {how_to_add}"
            raise ConfigError(
                f"{_file_of(cls)}{cls.__name__} has no setting {name!r}{did_you_mean(name, kinds)}",
                hint=f"its settings: {names}",
            )
        _refuse_several(cls, name, value, kinds)
        result[name] = _converted(cls, name, kinds[name], value)
    return result


def _refuse_several(cls: type[Any], name: str, value: Any, kinds: Mapping[str, Any]) -> None:
    """Raise ConfigError: a value goes on with further settings, as in `tries=2,easy=true`."""
    is_text = kinds[name] is str or not isinstance(value, str)
    parts = [] if is_text else re.split(r",(?=\w+=)", value)
    if parts[1:] and all(part.partition("=")[0] in kinds for part in parts[1:]):
        separate = (f"--set {shlex.quote(part)}" for part in (f"{name}={parts[0]}", *parts[1:]))
        raise ConfigError(
            f"{_file_of(cls)}setting {name} of {cls.__name__} has further settings in its value: "
            f"{value!r}",
            hint=f"each takes a --set of its own: {' '.join(separate)}",
        )


def _file_of(cls: type[Any]) -> str:
    """Return the name of the class's file, such as `sums.py: `; empty when it has none."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f"{Path(file).name}: " if file else ""


def _converted(cls: type[Any], name: str, kind: Any, value: Any) -> Any:
    setting = f"{_file_of(cls)}setting {name} of {cls.__name__}"
    try:
        # A text setting may look like a number: --set version=3
        if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        converted = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        reasons = " or ".join(sentence_of(problem) for problem in error.errors(include_url=False))
        raise ConfigError(f"{setting} {reasons}, got {value!r}") from None
    except PydanticUserError as error:
        raise ConfigError(
            f"{place_of(cls)}setting {name} of {cls.__name__} has a type that cannot be checked: {error}",
            hint="use plain types for settings: int, float, bool, str, list, dict, Literal",
        ) from None
    if isinstance(value, bool) and type(converted) in {int, float}:
        raise ConfigError(f"{setting} should be a number, got {value!r}")
    if not all(map(math.isfinite, _floats_in(converted))):
        raise ConfigError(
            f"{setting} should be finite, got {value!r}",
            hint="a run records its settings as JSON, which has no inf and no nan: write None, with the "
            "type `float | None`",
        )
    return converted


def _floats_in(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        yield from _floats_in(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _floats_in(item)
