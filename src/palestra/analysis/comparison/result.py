"""The result of a comparison as data classes, and the regression gate. All differences are B minus
A.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

import orjson

from palestra.analysis.intervals import Estimate
from palestra.analysis.report.markup import html_table
from palestra.errors import InputDataError
from palestra.metrics import TaskIndex
from palestra.schema import JsonDict

SIGNIFICANT: Final = 0.05
"""The largest p-value that shows a difference."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The number of tasks and requests of one run and how the requests ended, over paired and
    unpaired tasks.
    """

    rollouts: str
    tasks: int
    requested: int
    scored: int
    failures: Mapping[str, int]
    unaccounted: int
    """The number of requests that are in no rollouts file and no failures file."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """The result of McNemar's test. `only_a`, `only_b`: tasks that only this run solved. `p_value`:
    exact and two-sided.
    """

    only_a: int
    only_b: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Requested:
    """Bounds over all requested rollouts: the possible means of both runs and their difference.

    For each bound, every missing value is set to the least or to the largest possible value.
    """

    tasks: int
    a: tuple[float, float]
    b: tuple[float, float]
    lowest: Estimate
    """The difference when A's missing values are the largest possible and B's the least."""
    highest: Estimate


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """The comparison of one metric over the tasks that have it in both runs; each task has equal
    weight.
    """

    name: str
    tasks: int
    a: float
    b: float
    difference: Estimate
    p_value: float
    """The p-value of the two-sided sign-flip test over tasks (mid-p)."""
    p_adjusted: float
    """The p-value after Holm's adjustment over the metrics of this comparison."""
    minimum_detectable: float | None
    """The smallest true difference that would be detected with 80 % probability; None when the
    standard error is unknown or 0."""
    mcnemar: McNemar | None
    """The result of McNemar's test; None unless each task has exactly one rollout in each run and
    all values are 0 or 1."""
    requested: Requested | None
    """The bounds over all requested rollouts; None when no value is missing."""

    @property
    def conclusion(self) -> str:
        """`better` or `worse` for B, where both the interval and the p-value show it; with
        `probably ` before it where only one of both does; empty where neither does.
        """
        change, low, high = self.difference.value, self.difference.low, self.difference.high
        by_test = self.p_value <= SIGNIFICANT
        by_interval = by_test if low is None or high is None else low > 0 or high < 0
        if not by_test and not by_interval:
            return ""
        word = "better" if change > 0 else "worse"
        return word if by_test and by_interval else f"probably {word}"

    @property
    def doubt(self) -> str:
        """What speaks against a conclusion with `probably`; empty for every other conclusion."""
        if not self.conclusion.startswith("probably"):
            return ""
        if self.p_value <= SIGNIFICANT:
            return "the interval includes 0, so these are too few tasks to be sure"
        return f"mid-p is above {SIGNIFICANT:g}, so these are too few tasks to be sure"


@dataclass(frozen=True, slots=True)
class Regression:
    """A task whose mean reward is lower in B. `a_rollouts`, `b_rollouts`: the number of scored
    rollouts.
    """

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
    """The number of paired tasks."""
    settings: Sequence[str]
    """The sampling settings that differ, one line each."""
    notices: Sequence[str]
    metrics: Sequence[MetricComparison]
    """The compared metrics; the reward is the first."""
    better: int
    """The number of tasks whose mean reward is higher in B."""
    worse: int
    equal: int
    unscored: int
    """The number of paired tasks without a scored rollout in at least one of the runs."""
    regressions: Sequence[Regression]
    """The ten tasks, or fewer, whose mean reward fell most."""

    @property
    def reward(self) -> MetricComparison:
        return self.metrics[0]

    def __repr__(self) -> str:
        """Return one line: the difference in reward, with its interval."""
        reward = self.reward
        return (
            f"<Comparison over {self.tasks} tasks: A {reward.a:.3f}, B {reward.b:.3f}, "
            f"{_difference_text(reward.difference)}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                metric.name,
                metric.tasks,
                f"{metric.a:.4f}",
                f"{metric.b:.4f}",
                _signed(metric.difference.value),
                f"{_signed(metric.difference.low)} to {_signed(metric.difference.high)}",
                f"{metric.p_value:.3g}",
            )
            for metric in self.metrics
        ]
        heads = ("metric", "tasks", "A", "B", "B - A", "95 %", "mid-p")
        return html_table(heads, rows, caption=f"A: {self.a.rollouts}, B: {self.b.rollouts}")

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        values: JsonDict = orjson.loads(orjson.dumps(self))
        return values


@dataclass(frozen=True, slots=True)
class RegressionGate:
    """Whether B may replace A. `reason`: one sentence with the numbers that decided."""

    passed: bool
    reason: str


def judge_comparison(
    comparison: Comparison, *, tolerance: float = 0.0, scored_only: bool = False
) -> RegressionGate:
    """Return a failed gate when B is significantly worse than A by more than `tolerance` (in reward
    units).

    B is significantly worse when the whole 95 % interval of the difference lies below -`tolerance`.
    The gate also fails when the interval would lie there if every missing rollout had the worst
    outcome for B; `scored_only` skips this second check. It fails too when the tasks are too few
    for an interval.

    Raises InputDataError: a difference is not finite. Such a number is below no tolerance, so the
    gate would always pass.
    """
    reward = comparison.reward
    _refuse_not_finite(reward.difference)
    if reward.requested is not None and not scored_only:
        _refuse_not_finite(reward.requested.lowest)
    if reward.difference.high is None:
        return RegressionGate(
            passed=False, reason="the runs share one task only, and one task is too few to decide"
        )
    if reward.difference.high < -tolerance:
        return RegressionGate(
            passed=False,
            reason=f"the whole 95 % interval of B - A lies below {0 - tolerance:g}: "
            f"{_difference_text(reward.difference)}",
        )
    hidden = None if scored_only else _hidden(reward.requested, tolerance)
    if hidden is not None:
        return RegressionGate(
            passed=False,
            reason="undecided, as too many rewards are missing: if every rollout without a "
            "reward had the worst possible reward for B, B would be worse by more than "
            f"{tolerance:g}: {_difference_text(hidden)}. `palestra diagnose RUN` says how "
            "to get the missing rewards; --scored-only decides by the scored rollouts "
            "alone",
        )
    return RegressionGate(
        passed=True,
        reason=f"B is not significantly worse by more than {tolerance:g}: "
        f"{_difference_text(reward.difference)}",
    )


def _hidden(requested: Requested | None, tolerance: float) -> Estimate | None:
    """Return the difference at the worst outcome of missing rollouts if it is a regression, else
    None.
    """
    if requested is None or requested.lowest.high is None:
        return None
    return requested.lowest if requested.lowest.high < -tolerance else None


def _refuse_not_finite(difference: Estimate) -> None:
    numbers = (difference.value, difference.low, difference.high)
    if not all(number is None or isfinite(number) for number in numbers):
        raise InputDataError(
            "the difference in reward is not finite, so the gate cannot decide: "
            f"{difference.value:g} [{difference.low}, {difference.high}]",
            hint="look for rewards that are very large or not numbers, and correct them in the "
            "verifier",
        )


def _signed(value: float | None) -> str:
    return "?" if value is None else f"{value:+.4f}"


def _difference_text(difference: Estimate) -> str:
    ends = f"[{_signed(difference.low)}, {_signed(difference.high)}]"
    return f"reward {_signed(difference.value)} {ends}"
