"""The replies about two runs side by side."""

from palestra.viewer.replies.base import Count, IntervalValue, Reply, TaskName
from palestra.viewer.replies.runs import RunLine


class MetricLine(Reply, frozen=True, kw_only=True):
    """The comparison of one metric: `difference` is B minus A."""

    name: str
    tasks: int
    a: float
    b: float
    difference: IntervalValue
    p_value: float
    p_adjusted: float
    minimum_detectable: float | None


class SideCounts(Reply, frozen=True, kw_only=True):
    """How the requests of one side ended."""

    run: RunLine
    tasks: int
    requested: int
    scored: int
    failures: list[Count]
    unaccounted: int


class ComparePage(Reply, frozen=True, kw_only=True):
    """`/api/c/{a}/{b}`: what `palestra compare` says."""

    a: SideCounts
    b: SideCounts
    tasks: int
    better: int
    worse: int
    equal: int
    unscored: int
    metrics: list[MetricLine]
    settings: list[str]
    notices: list[str]
    passed: bool
    verdict: str
    command: str


class ComparedTask(Reply, frozen=True, kw_only=True):
    """A task in both runs, with the rewards of its rollouts, highest first, at most 64."""

    task: TaskName
    prompt: str
    a: float | None
    b: float | None
    delta: float | None
    a_rewards: list[float]
    b_rewards: list[float]
    a_rollouts: list[int]
    """The rollouts in the order of `a_rewards`."""
    b_rollouts: list[int]


class CompareTasks(Reply, frozen=True, kw_only=True):
    """`/api/c/{a}/{b}/tasks`: the paired tasks, the largest regressions first unless sorted."""

    tasks: list[ComparedTask]
    offset: int
    matches: int
    total: int
