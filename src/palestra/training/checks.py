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

    def problem(self, name: str, given: object) -> str:
        """What is wrong with `given`; empty when nothing is."""
        return "" if self.fits(given) else f"{name} is {shown(given)}; it must be {self.allowed}"

    def or_none(self) -> "Rule":
        """The same, and None."""
        return Rule(f"{self.allowed}, or None", lambda given: given is None or self.fits(given))


def shown(given: object) -> str:
    """A value for a message, cut when it is long; whatever its own `repr` does."""
    return _SHORT.repr(given)


def whole(least: int | None = None) -> Rule:
    """An int, which a bool is not."""
    bound = "" if least is None else f", at least {least}"
    return Rule(
        f"a whole number{bound}",
        lambda given: _is_whole(given) and (least is None or given >= least),
    )


def number(*, least: float | None = None, unit: str = "") -> Rule:
    """A finite number: at least `least`; above 0 without one."""
    bound = "above 0" if least is None else f"at least {least:g}"
    return Rule(
        " ".join(filter(None, ("a finite number", unit, bound))),
        lambda given: _is_finite(given) and (given > 0 if least is None else given >= least),
    )


def share(*, zero: bool) -> Rule:
    """A part of a whole: from 0 to below 1 where `zero` is one, else above 0 and up to 1."""
    if zero:
        return Rule(
            "a number from 0 to below 1", lambda given: _is_finite(given) and 0 <= given < 1
        )
    return Rule(
        "a number above 0 and at most 1", lambda given: _is_finite(given) and 0 < given <= 1
    )


def instance_of(kind: type, allowed: str) -> Rule:
    """An object of a class."""
    return Rule(allowed, lambda given: isinstance(given, kind))


FRACTION: Final = Rule("a number from 0 to 1", lambda given: _is_finite(given) and 0 <= given <= 1)
SECONDS: Final = number(unit="of seconds")
MAPPING: Final = instance_of(Mapping, "a mapping (a dict)")
NAME: Final = Rule(
    "a whole number or a text that is not empty",
    lambda given: _is_whole(given) or (isinstance(given, str) and given != ""),
)


def problems_in(given: object, rules: Mapping[str, Rule], prefix: str = "") -> Iterator[str]:
    """What is wrong with the fields of an object, a sentence for each."""
    for name, rule in rules.items():
        problem = rule.problem(prefix + name, getattr(given, name))
        if problem:
            yield problem


def require(name: str, given: object, rule: Rule) -> None:
    """Raises ConfigError when `given` is not what `rule` allows."""
    problem = rule.problem(name, given)
    if problem:
        raise ConfigError(problem)


def chosen(name: str, given: object, choices: Iterable[Choice]) -> Choice:
    """The choice that `given` is, or is spelt like. Raises ConfigError for any other."""
    for choice in choices:
        if choice == str(given):
            return choice
    raise ConfigError(f"{name} is {shown(given)}; it must be one of {', '.join(choices)}")


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_finite(given: Any) -> bool:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    return math.isfinite(given)
