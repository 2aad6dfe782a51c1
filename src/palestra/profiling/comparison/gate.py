"""The answer of a gate: may B take the place of A?"""

from dataclasses import dataclass
from math import isfinite

from palestra.errors import InputDataError
from palestra.profiling.comparison.result import Comparison, Requested
from palestra.profiling.intervals import Estimate


@dataclass(frozen=True, slots=True)
class Gate:
    """`reason`: one sentence with the numbers that decided."""

    passed: bool
    reason: str


def judge(comparison: Comparison, *, tolerance: float = 0.0, scored_only: bool = False) -> Gate:
    """Fails when B is significantly worse than A by more than `tolerance`, in units of reward.

    That is when the whole 95 % interval of the difference lies below -`tolerance`. It also fails
    when missing rollouts could hide that: when it would be so if each one missing had ended in the
    worst way for B. `scored_only` leaves that second question out.

    Raises InputDataError where a difference is no finite number: no such number is below any
    tolerance, so the gate would let everything pass.
    """
    reward = comparison.reward
    _refuse_not_finite(reward.difference)
    if reward.requested is not None and not scored_only:
        _refuse_not_finite(reward.requested.lowest)
    if reward.difference.high is None:
        return Gate(passed=False, reason="one task says nothing about others: nothing was shown")
    if reward.difference.high < -tolerance:
        return Gate(
            passed=False,
            reason=f"B is significantly worse by more than {tolerance:g}: {_told(reward.difference)}",
        )
    hidden = None if scored_only else _hidden(reward.requested, tolerance)
    if hidden is not None:
        return Gate(
            passed=False,
            reason="too much is missing to tell: if every rollout without a reward had ended in "
            f"the worst way for B, it would be worse by more than {tolerance:g}: {_told(hidden)}. "
            "`palestra diagnose RUN` says what scores the rest; or decide by what was scored with "
            "--scored-only",
        )
    return Gate(
        passed=True,
        reason=f"B is not significantly worse by more than {tolerance:g}: "
        f"{_told(reward.difference)}",
    )


def _hidden(requested: Requested | None, tolerance: float) -> Estimate | None:
    """The regression that missing rollouts could hide."""
    if requested is None or requested.lowest.high is None:
        return None
    return requested.lowest if requested.lowest.high < -tolerance else None


def _refuse_not_finite(difference: Estimate) -> None:
    numbers = (difference.value, difference.low, difference.high)
    if not all(number is None or isfinite(number) for number in numbers):
        raise InputDataError(
            "the difference in reward is not finite, so the gate cannot decide: "
            f"{difference.value:g} [{difference.low}, {difference.high}]",
            hint="look for rewards that are very large or not numbers, and scale or correct them",
        )


def _told(difference: Estimate) -> str:
    return f"reward {difference.value:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
