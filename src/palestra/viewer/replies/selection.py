"""The reply about which tasks can teach."""

from palestra.viewer.replies.base import Count, Reply, TaskName
from palestra.viewer.replies.figures import FigureBar


class VerdictCount(Reply, frozen=True, kw_only=True):
    """How many tasks have one verdict, and how many of them are borderline."""

    name: str
    count: int
    borderline: int
    more_rollouts: int
    """The rollouts that would decide the borderline tasks, apart from those on an edge."""
    on_edge: int
    """Borderline tasks whose pass rate equals an edge of the band: no number decides them."""


class SelectedTask(Reply, frozen=True, kw_only=True):
    """One task, and whether it is kept."""

    task: TaskName
    verdict: str
    borderline: bool
    """Whether the interval of the pass rate includes an edge of the band."""
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

    verdicts: list[VerdictCount]
    failures: list[Count]
    """The rollouts without a reward, by class: they count neither as solved nor as failed."""
    rates: list[FigureBar]
    """The tasks by pass rate, for the slider."""
    tasks: list[SelectedTask]
    """A page of 500."""
    offset: int
    total: int
    notices: list[str]
    command: str
    command_note: str
    """What to know before the command is run again."""
