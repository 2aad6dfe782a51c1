"""The figures of a run: the numbers that its report draws."""

from typing import Literal

from palestra.analysis import KeyFigure, Remark
from palestra.viewer.replies.base import Base, Count, IntervalValue, Reply


class FigureBar(Reply, frozen=True, kw_only=True):
    """One bar of a figure."""

    label: str
    tick: str
    """The short label for the axis."""
    count: int
    query: str
    """The query that selects what the bar counts; empty when there is none."""
    of: Literal["rollouts", "tasks"]
    """The table that `query` is for."""


class PassCurvePoint(Reply, frozen=True, kw_only=True):
    """The best of k rollouts, and pass^k."""

    k: int
    best: IntervalValue
    worst: float | None
    tasks: int


class LengthBar(Reply, frozen=True, kw_only=True):
    """The rollouts with `low` to `high` output tokens."""

    low: int
    high: int
    rollouts: int
    reward: IntervalValue
    query: str


class OutcomeLine(Reply, frozen=True, kw_only=True):
    """How many requests ended in one way."""

    name: str
    count: int
    share: float
    meaning: str
    query: str


class GroupFigures(Reply, frozen=True, kw_only=True):
    """One family or agent."""

    name: str
    tasks: int
    requested: int
    scored: int
    mean_reward: IntervalValue | None
    pass_at_1: float | None
    best_k: int
    best: float | None
    """pass@best_k."""
    best_tasks: int
    """The tasks with at least `best_k` scored rollouts: `best` is over them."""
    scored_tasks: int
    """The tasks with a score."""
    never: float | None
    sometimes: float | None
    always: float | None
    output_tokens: float | None
    query: str


class ComponentLine(Reply, frozen=True, kw_only=True):
    """One component of the reward."""

    name: str
    rollouts: int
    mean: IntervalValue
    least: float
    most: float


class Figures(Reply, frozen=True, kw_only=True):
    """The numbers of the report. Lists are empty when nothing was scored."""

    binary: bool
    """Whether every reward is 0 or 1."""
    key_figures: list[KeyFigure]
    findings: list[Remark]
    notices: list[str]
    solved: list[Count]
    """The tasks solved never, sometimes, always."""
    pass_rates: list[FigureBar]
    curve: list[PassCurvePoint]
    rewards: list[FigureBar]
    lengths: list[LengthBar]
    outcomes: list[OutcomeLine]
    groups: list[GroupFigures]
    grouped_by: str
    components: list[ComponentLine]


class RunFigures(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/figures`: the numbers of the report, for a run that may still grow."""

    figures: Figures | None
    absent: str
    """Why there are no figures; empty when there are."""
    base: Base
    computed_at: float
