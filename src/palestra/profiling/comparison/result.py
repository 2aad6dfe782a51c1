"""What a comparison found, as values. Differences are B minus A."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palestra.profiling.frame import TaskIndex
from palestra.profiling.intervals import Estimate


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
