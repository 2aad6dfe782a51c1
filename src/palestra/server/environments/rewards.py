"""What an author's `verify` returned, as a reward with its components."""

import math
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, Final

from palestra.config import LEAST_REPLACED, is_one_slip, is_variant
from palestra.errors import VerifierError
from palestra.schema import (
    EXTRACTED_ANSWER,
    REWARD_ADVICE,
    REWARD_COMPONENTS,
    JsonObject,
    UnusedWeights,
    WeightUse,
    is_infinite,
    no_reward,
    short_repr,
)
from palestra.server.environments.awaiting import refuse_coroutine

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

    Raises VerifierError: there are no components, one is no finite number, or the name of a weight is
    most likely a slip of a component's name.
    """
    refuse_coroutine(returned, where)
    if isinstance(returned, Generator | AsyncGenerator):
        raise VerifierError(
            f"{where} returned a generator, which is not a reward",
            hint="a function with a yield returns a generator: write return",
        )
    if not isinstance(returned, Mapping):
        number = _number(returned)
        return Verdict(returned if number is None else number)
    if not returned:
        raise VerifierError(
            f"{where} returned {{}}: it names no component",
            hint='verify returns a number, or components by name: {"correct": 1.0, "short": 0.5}',
        )
    for value in returned.values():
        refuse_coroutine(value, where)
    _refuse_names(returned, where)
    values = {str(name): _component(name, value, where) for name, value in returned.items()}
    _refuse_slips(values, weights, where)
    if (reward := values.pop(REWARD, None)) is None:
        reward = _weighted_sum(values, weights, where)
    return Verdict(reward, values or None)


def _refuse_names(names: Iterable[Any], where: str) -> None:
    """Raise VerifierError when the name of a component is no text, or is blank."""
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise VerifierError(
                f"{where} returned a component named {short_repr(name)}: a name is a text that is not "
                "blank",
                hint='return components by name: {"correct": 1.0, "short": 0.5}',
            )


def _weighted_sum(values: Mapping[str, float], weights: Mapping[str, float], where: str) -> float:
    """Return the reward of components. Raises VerifierError: it is beyond every float."""
    try:
        total = math.fsum(weights.get(name, 1.0) * value for name, value in values.items())
    except (OverflowError, ValueError):  # of a partial sum, or of infinities of both signs
        total = math.nan
    if is_infinite(total):
        raise VerifierError(
            f"{where} returned components whose weighted sum is not a finite number: {dict(values)}",
            hint="return smaller components, or lower their weights",
        )
    return total


def how_to_use(weights: Mapping[str, float]) -> str:
    """Return how an author gives an effect to weights of which `verify` returns no component."""
    names = ", ".join(f"{name!r}: …" for name in weights if name != REWARD)
    return f"return components by the names in weights, such as {{{names}}}, or remove weights"


def without_component(weights: Mapping[str, float], names: Collection[str]) -> list[str]:
    """Return the weights that have no component among `names`."""
    return [name for name in weights if name != REWARD and name not in names]


def unused_weights(
    owner: str, weights: Mapping[str, float], responses: Sequence[JsonObject]
) -> UnusedWeights | None:
    """Return which weights no verify response of a run has a component for; None when all have one,
    and when no row was verified.
    """
    verified = (row for row in responses if row.keys() & {REWARD_COMPONENTS, EXTRACTED_ANSWER})
    use = WeightUse()
    for row in verified:
        use.add(owner, without_component(weights, ()), row.get(REWARD_COMPONENTS))
    return next(use.unused(), None)


def _refuse_slips(names: Collection[str], weights: Mapping[str, float], where: str) -> None:
    """Raise VerifierError when a weight without a component is one slip of the finger away from a
    component without a weight. Either alone is no slip: a row may lack components, and their default
    weight is 1.
    """
    if slips := _slips(frozenset(names), frozenset(weights)):
        name, near = slips[0]
        raise VerifierError(
            f"weights has {name!r}, but {where} returned no such component; did you mean {near!r}?",
            hint=f"write {near!r} in weights; {near!r} without a weight would count once. A component "
            "that is meant beside it needs a weight of its own",
        )


@lru_cache(maxsize=256)  # the rollouts of a run return few sets of names
def _slips(names: frozenset[str], weights: frozenset[str]) -> tuple[tuple[str, str], ...]:
    unweighted = names - weights - {REWARD}
    return tuple(
        (name, near)
        for name in sorted(weights - names)
        for near in sorted(unweighted)
        if _is_slip(name, near)
    )


def _is_slip(name: str, near: str) -> bool:
    """Whether one name is most likely meant to be the other. A replaced letter may make another name
    where the name has several words: `f1_micro` and `f1_macro`.
    """
    least_replaced = math.inf if "_" in name else LEAST_REPLACED
    is_near = is_one_slip(name, near, least_replaced=least_replaced)
    return name.lower() == near.lower() or (is_near and not is_variant(name, near, plural=True))


def _component(name: Any, value: Any, where: str) -> float:
    number = _number(value)
    if number is None:
        raise VerifierError(
            f"{where} returned the component {name!r}: {no_reward(value)}",
            hint=REWARD_ADVICE,
        )
    return number


def _number(value: Any) -> float | None:
    """Return a finite number or a bool of any library, such as NumPy, as a float; None for other
    values.
    """
    is_number = isinstance(value, Real | Decimal) or type(value).__name__ in {"bool", "bool_"}
    return float(value) if is_number and not is_infinite(value) else None


def weights_problem(weights: Any) -> str:
    """Return why `weights` is not a mapping from names to finite numbers; empty when it is one."""
    numbers = weights.values() if isinstance(weights, Mapping) else (math.nan,)
    if all(isinstance(number, Real) and not is_infinite(number) for number in numbers):
        return ""
    return f"weights must be numbers by name, not {weights!r}"
