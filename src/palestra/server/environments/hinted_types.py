"""The type hint of a parameter that a field of the rows fills, and the values that it is true of.

An author's code compares what it gets. A text where the code expects a number is never equal to one,
and every rollout would get the reward 0 without a word.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from palestra.server.method_forms import SPREAD

_JSON: Final = (str, bool, int, float, list, tuple, dict)
"""The types of values that a hint is compared with. Null fits each hint."""
_FITTING: Final[Mapping[Any, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool, int),
    int: (bool, int),
    float: (bool, int, float),
    list: (list, tuple),
    dict: (dict,),
}
_CONVERSIONS: Final[Mapping[Any, str]] = {
    int: "int",
    float: "float",
    list: "json.loads",
    dict: "json.loads",
}
"""The function that makes a value of a type out of a text, such as one of a CSV file."""


@dataclass(frozen=True, slots=True)
class HintedType:
    """A type hint as it is written, and the types of JSON values that it is true of."""

    text: str
    types: tuple[type, ...]
    conversion: str = ""
    """The name of the function that makes such a value out of a text; empty without one."""

    def fits(self, value: Any) -> bool:
        """Return whether a value of a row is what the hint says."""
        if not isinstance(value, _JSON) or isinstance(value, self.types):
            return True
        if not isinstance(value, float):
            return False
        # Of NaN and infinity, it is said elsewhere that JSON has none.
        return not math.isfinite(value) or (int in self.types and value.is_integer())

    def sentence(self, name: str, value: Any) -> str:
        """Return what is wrong with a value that does not fit the parameter `name`, without its end:
        where the row is.
        """
        return f"{name}: {self.text}, but {name} is {_described(value)}"

    def remedy(self, name: str, value: Any) -> str:
        """Return what to write instead, for a value that does not fit."""
        right = _hint_for(value)
        used = f", and {self.conversion}({name}) where it is used" if self.conversion else ""
        convert = used if isinstance(value, str) else ""
        return f"write {name}: {right}{convert}; or correct the rows"


def hinted_types(function: Callable[..., Any]) -> dict[str, HintedType]:
    """Return the hints of a function's parameters that say which JSON values are right, by name.

    There are none of a decorated function: its decorator may convert the values. That of a `*` or `**`
    parameter is a hint of each value in it.
    """
    if hasattr(function, "__wrapped__"):
        return {}
    try:
        hints = get_type_hints(function)
    except Exception:  # names of the author's code; what they mean is theirs
        return {}
    parameters = inspect.signature(function).parameters
    names = {name for name, parameter in parameters.items() if parameter.kind not in SPREAD}
    types = {name: _types_of(hint) for name, hint in hints.items() if name in names}
    return {
        name: HintedType(inspect.formatannotation(hints[name]), fitting, _conversion(hints[name]))
        for name, fitting in types.items()
        if fitting is not None
    }


def _types_of(hint: Any) -> tuple[type, ...] | None:
    """Return the types of values that a hint is true of; None where this is not decided."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _types_of(get_args(hint)[0])
    if origin is Literal:
        return _together([_FITTING.get(type(choice)) for choice in get_args(hint)])
    if origin in {Union, UnionType}:
        return _together([_types_of(arm) for arm in get_args(hint) if arm is not NoneType])
    return _FITTING.get(origin or hint)


def _together(types: list[tuple[type, ...] | None]) -> tuple[type, ...] | None:
    decided = [fitting for fitting in types if fitting is not None]
    return (
        tuple(kind for fitting in decided for kind in fitting)
        if len(decided) == len(types)
        else None
    )


def _conversion(hint: Any) -> str:
    is_union = get_origin(hint) in {Union, UnionType}
    arms = [arm for arm in get_args(hint) if arm is not NoneType] if is_union else [hint]
    return _CONVERSIONS.get(get_origin(arms[0]) or arms[0], "") if len(arms) == 1 else ""


def _described(value: Any) -> str:
    text = f"{value!r:.60}"
    return f"the text {text}" if isinstance(value, str) else f"{text} ({_hint_for(value)})"


def _hint_for(value: Any) -> str:
    kinds = (kind for kind in _FITTING if isinstance(value, kind))
    return next(kinds, list).__name__
