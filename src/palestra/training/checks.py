"""Rules for the values of fields that a caller sets, and the message for a value that breaks one."""

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
    """One rule: its description, and a test that never raises."""

    allowed: str
    fits: Callable[[Any], bool]

    def problem(self, name: str, value: object) -> str:
        """Return what is wrong with `value`; "" when it fits."""
        return "" if self.fits(value) else f"{name} is {shown(value)}; it must be {self.allowed}"

    def or_none(self) -> "Rule":
        """Return the same rule, but None is allowed too."""
        return Rule(f"{self.allowed}, or None", lambda value: value is None or self.fits(value))


def shown(value: object) -> str:
    """Return a value's `repr` for a message, shortened when long, even if its own `repr` raises."""
    return _SHORT.repr(value)


def whole(least: int | None = None) -> Rule:
    """Return the rule for an int, at least `least`. A bool is not allowed."""
    bound = "" if least is None else f", at least {least}"
    return Rule(
        f"a whole number{bound}",
        lambda value: _is_whole(value) and (least is None or value >= least),
    )


def number(*, least: float | None = None, unit: str = "") -> Rule:
    """Return the rule for a finite number: at least `least`; above 0 without `least`."""
    bound = "above 0" if least is None else f"at least {least:g}"
    return Rule(
        " ".join(filter(None, ("a finite number", unit, bound))),
        lambda value: _is_finite(value) and (value > 0 if least is None else value >= least),
    )


def share(*, zero: bool) -> Rule:
    """Return the rule for a fraction: from 0 to below 1 with `zero`, else above 0 and up to 1."""
    if zero:
        return Rule(
            "a number from 0 to below 1", lambda value: _is_finite(value) and 0 <= value < 1
        )
    return Rule(
        "a number above 0 and at most 1", lambda value: _is_finite(value) and 0 < value <= 1
    )


def instance_of(kind: type, allowed: str) -> Rule:
    """Return the rule for an object of class `kind`."""
    return Rule(allowed, lambda value: isinstance(value, kind))


FRACTION: Final = Rule("a number from 0 to 1", lambda value: _is_finite(value) and 0 <= value <= 1)
SECONDS: Final = number(unit="of seconds")
MAPPING: Final = instance_of(Mapping, "a mapping (a dict)")
NAME: Final = Rule(
    "a whole number or a text that is not empty",
    lambda value: _is_whole(value) or (isinstance(value, str) and value != ""),
)


def problems_in(settings: object, rules: Mapping[str, Rule], prefix: str = "") -> Iterator[str]:
    """Yield a sentence for each field of an object that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(settings, name)
        if not rule.fits(value):
            yield rule.problem(prefix + name, value)


def require(name: str, value: object, rule: Rule) -> None:
    """Raise ConfigError when `value` breaks `rule`."""
    problem = rule.problem(name, value)
    if problem:
        raise ConfigError(problem)


def chosen(name: str, value: object, choices: Iterable[Choice]) -> Choice:
    """Return the choice that `value` equals, or whose text it equals. Raises ConfigError: there is
    none.
    """
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
