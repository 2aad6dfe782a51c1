"""The reply about which tasks can teach."""

from palestra.viewer.replies.base import Count, Reply, TaskName
from palestra.viewer.replies.figures import FigureBar


class SelectedTask(Reply, frozen=True, kw_only=True):
    """One task, and whether it is kept."""

    task: TaskName
    verdict: str
    scored: int
    requested: int
    pass_rate: float | None
    low: float | None
    high: float | None
    learnability: float | None
    output_tokens: float | None
    more_rollouts: int | None


class SelectPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/select`: what `palestra select` chooses."""

    verdicts: list[Count]
    rates: list[FigureBar]
    """The tasks by pass rate, for the slider."""
    tasks: list[SelectedTask]
    """A page of 500."""
    offset: int
    total: int
    more_rollouts: int
    """The rollouts that would decide the borderline tasks."""
    notices: list[str]
    command: str
