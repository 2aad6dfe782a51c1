"""What a comparison found, as values, and the answer of a gate. Differences are B minus A."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from palestra.analysis.intervals import Estimate
from palestra.errors import InputDataError
from palestra.metrics import TaskIndex


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What was asked of one run, and how it ended; of all its tasks, paired or not."""

    rollouts: str
    tasks: int
    requested: int
    scored: int
    failures: Mapping[str, int]
    unaccounted: int
    """Requests that no file says anything about."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """Tasks that exactly one of the runs solved. `p_value` is exact and two-sided."""

    only_a: int
    only_b: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Requested:
    """The view over all requested rollouts: what the runs' means can be, whatever is missing.

    The ends assume that each missing value was the least or the largest there can be.
    """

    tasks: int
    a: tuple[float, float]
    b: tuple[float, float]
    lowest: Estimate
    """The difference if A's missing values were the largest and B's the least."""
    highest: Estimate


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric over the tasks that have it in both runs, each task weighing the same."""

    name: str
    tasks: int
    a: float
    b: float
    difference: Estimate
    p_value: float
    """Sign-flip test over tasks, two-sided, mid-p."""
    p_adjusted: float
    """After Holm, over the metrics of this comparison."""
    minimum_detectable: float | None
    """The true difference that would be found in 80 % of such comparisons; None for one task."""
    mcnemar: McNemar | None
    """Where each task has one rollout in each run, and it is 0 or 1."""
    requested: Requested | None
    """None when nothing is missing: both views are the same."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A task whose mean reward fell. `a_rollouts`, `b_rollouts`: how many were scored."""

    task: TaskIndex
    a: float
    b: float
    change: float
    a_rollouts: int
    b_rollouts: int


@dataclass(frozen=True, slots=True)
class Comparison:
    a: RunCounts
    b: RunCounts
    tasks: int
    """Paired tasks."""
    settings: Sequence[str]
    """How sampling differs, one line each."""
    notices: Sequence[str]
    metrics: Sequence[MetricComparison]
    """The reward first."""
    better: int
    """Tasks whose mean reward is higher in B."""
    worse: int
    equal: int
    unscored: int
    """Paired tasks without a scored rollout in one of the runs."""
    regressions: Sequence[Regression]
    """The tasks that fell most, at most ten."""

    @property
    def reward(self) -> MetricComparison:
        return self.metrics[0]


@dataclass(frozen=True, slots=True)
class RegressionGate:
    """May B take the place of A? `reason`: one sentence with the numbers that decided."""

    passed: bool
    reason: str


def judge_comparison(
    comparison: Comparison, *, tolerance: float = 0.0, scored_only: bool = False
) -> RegressionGate:
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
        return RegressionGate(
            passed=False, reason="one task says nothing about others: nothing was shown"
        )
    if reward.difference.high < -tolerance:
        return RegressionGate(
            passed=False,
            reason=f"B is significantly worse by more than {tolerance:g}: {_told(reward.difference)}",
        )
    hidden = None if scored_only else _hidden(reward.requested, tolerance)
    if hidden is not None:
        return RegressionGate(
            passed=False,
            reason="too much is missing to tell: if every rollout without a reward had ended in "
            f"the worst way for B, it would be worse by more than {tolerance:g}: {_told(hidden)}. "
            "`palestra diagnose RUN` says what scores the rest; or decide by what was scored with "
            "--scored-only",
        )
    return RegressionGate(
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
