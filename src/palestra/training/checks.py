"""What a field that a caller gives may be, and the sentence that says so when it is not."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from reprlib import Repr
from typing import Any, Final, TypeVar, final

from palestra.errors import ConfigError

Choice = TypeVar("Choice", bound=StrEnum)

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What is allowed, in words and as a test that never raises."""

    allowed: str
    fits: Callable[[Any], bool]

    def problem(self, name: str, value: object) -> str:
        """What is wrong with `value`; empty when nothing is."""
        return "" if self.fits(value) else f"{name} is {shown(value)}; it must be {self.allowed}"

    def or_none(self) -> "Rule":
        """The same, and None."""
        return Rule(f"{self.allowed}, or None", lambda value: value is None or self.fits(value))


def shown(value: object) -> str:
    """A value for a message, cut when it is long; whatever its own `repr` does."""
    return _SHORT.repr(value)


def whole(least: int | None = None) -> Rule:
    """An int, which a bool is not."""
    bound = "" if least is None else f", at least {least}"
    return Rule(
        f"a whole number{bound}",
        lambda value: _is_whole(value) and (least is None or value >= least),
    )


def number(*, least: float | None = None, unit: str = "") -> Rule:
    """A finite number: at least `least`; above 0 without one."""
    bound = "above 0" if least is None else f"at least {least:g}"
    return Rule(
        " ".join(filter(None, ("a finite number", unit, bound))),
        lambda value: _is_finite(value) and (value > 0 if least is None else value >= least),
    )


def share(*, zero: bool) -> Rule:
    """A part of a whole: from 0 to below 1 where `zero` is one, else above 0 and up to 1."""
    if zero:
        return Rule(
            "a number from 0 to below 1", lambda value: _is_finite(value) and 0 <= value < 1
        )
    return Rule(
        "a number above 0 and at most 1", lambda value: _is_finite(value) and 0 < value <= 1
    )


def instance_of(kind: type, allowed: str) -> Rule:
    """An object of a class."""
    return Rule(allowed, lambda value: isinstance(value, kind))


FRACTION: Final = Rule("a number from 0 to 1", lambda value: _is_finite(value) and 0 <= value <= 1)
SECONDS: Final = number(unit="of seconds")
MAPPING: Final = instance_of(Mapping, "a mapping (a dict)")
NAME: Final = Rule(
    "a whole number or a text that is not empty",
    lambda value: _is_whole(value) or (isinstance(value, str) and value != ""),
)


def problems_in(settings: object, rules: Mapping[str, Rule], prefix: str = "") -> Iterator[str]:
    """What is wrong with the fields of an object, a sentence for each."""
    for name, rule in rules.items():
        problem = rule.problem(prefix + name, getattr(settings, name))
        if problem:
            yield problem


def require(name: str, value: object, rule: Rule) -> None:
    """Raises ConfigError when `value` is not what `rule` allows."""
    problem = rule.problem(name, value)
    if problem:
        raise ConfigError(problem)


def chosen(name: str, value: object, choices: Iterable[Choice]) -> Choice:
    """The choice that `value` is, or is spelt like. Raises ConfigError for any other."""
    for choice in choices:
        if choice == str(value):
            return choice
    raise ConfigError(f"{name} is {shown(value)}; it must be one of {', '.join(choices)}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)
