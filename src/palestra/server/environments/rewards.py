"""What an author's `verify` returned, as a reward with its components."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

from palestra.errors import VerifierError
from palestra.schema import no_reward

REWARD: Final = "reward"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reward and its components. `reward` may be no number; whoever reports it checks that."""

    reward: Any
    components: Mapping[str, float] | None = None
    used_seed: str = ""
    """The seed of the random numbers that were used; empty without any."""


def verdict_of(returned: Any, weights: Mapping[str, float], where: str) -> Verdict:
    """Return the verdict for a number, a bool, or components by name.

    The reward of components is their sum, each times its weight (1 without one). A component named
    `reward` is the reward itself. `where`: the server and its path, for messages.

    Raises VerifierError: there are no components, or one is no finite number.
    """
    if not isinstance(returned, Mapping):
        number = _number(returned)
        return Verdict(returned if number is None else number)
    if not returned:
        raise VerifierError(
            f"{where} returned {{}}: it names no component",
            hint='verify returns a number, or components by name: {"correct": 1.0, "short": 0.5}',
        )
    values = {str(name): _component(name, value, where) for name, value in returned.items()}
    if (reward := values.pop(REWARD, None)) is None:
        reward = math.fsum(weights.get(name, 1.0) * value for name, value in values.items())
    return Verdict(reward, values or None)


def _component(name: Any, value: Any, where: str) -> float:
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise VerifierError(
            f"{where} returned the component {name!r}: {no_reward(value)}",
            hint="each component must be a finite number or a bool",
        )
    return number


def _number(value: Any) -> float | None:
    """Return a number or a bool of any library, such as NumPy, as a float; None for other values."""
    is_number = isinstance(value, Real) or type(value).__name__ in {"bool", "bool_"}
    return float(value) if is_number else None


def weights_problem(weights: Any) -> str:
    """Return why `weights` is not a mapping from names to finite numbers; empty when it is one."""
    numbers = weights.values() if isinstance(weights, Mapping) else (math.nan,)
    if all(isinstance(number, Real) and math.isfinite(float(number)) for number in numbers):
        return ""
    return f"weights must be numbers by name, not {weights!r}"
