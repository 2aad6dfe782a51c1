"""The reply about one task and its rollouts."""

from palestra.viewer.replies.base import Base, Reply, TaskName

GROUP_ROLLOUTS = 64
"""The largest number of rollouts that a task's page shows side by side."""


class AnswerCount(Reply, frozen=True, kw_only=True):
    """How many rollouts of a task gave one answer, and their mean reward."""

    answer: str
    count: int
    mean_reward: float | None
    rollouts: list[int]


class GroupMember(Reply, frozen=True, kw_only=True):
    """One rollout in the page of its task."""

    row: int
    rollout: int | None
    outcome: str
    reward: float | None
    components: dict[str, float]
    tokens_in: int | None
    tokens_out: int | None
    turns: int | None
    answer: str
    """The last 200 characters of the answer."""
    marks: list[str]


class Variant(Reply, frozen=True, kw_only=True):
    """How some rollouts of a group go on, such as with `call search`."""

    name: str
    count: int
    mean_reward: float | None
    """Of those with a score; null when none has one."""


class FirstDifference(Reply, frozen=True, kw_only=True):
    """Where the rollouts of a group first differ: in item `item` of the output, and how."""

    item: int
    variants: list[Variant]
    """The kinds and names that follow, the most frequent first."""


class TaskGroup(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/t/{task}`: the rollouts of a task, the highest reward first, at most 64."""

    task: TaskName
    prompt: str
    """The first 4,000 characters."""
    expected: str
    """The `expected_answer` of its rows, the first 200 characters; empty without one."""
    members: list[GroupMember]
    rollouts: int
    solved: int
    scored: int
    mean: float | None
    std: float | None
    pass_rate: float | None
    learnability: float | None
    answers: list[AnswerCount]
    difference: FirstDifference | None
    previous: TaskName | None
    next: TaskName | None
    base: Base
