"""The reply about the failed attempts of a run."""

from typing import Literal

from palestra.viewer.replies.base import NamedText, Reply, TaskName


class FailureRow(Reply, frozen=True, kw_only=True):
    """A rollout whose attempt failed. `kept`: its answer can be opened."""

    task: TaskName | None
    rollout: int | None
    attempt: int
    row: int
    kept: bool


class FailureNode(Reply, frozen=True, kw_only=True):
    """A node of the tree: class, then layer, then cause, then message."""

    level: Literal["class", "layer", "cause", "message"]
    name: str
    attempts: int
    rollouts: int
    without_score: int
    likely_cause: str
    next_action: str
    query: str
    rows: list[FailureRow]
    """Of a message: the first 50."""
    nodes: list["FailureNode"]
    others: int
    """The attempts whose messages are rarer than those in `nodes`."""


class FindingLine(Reply, frozen=True, kw_only=True):
    """One finding of the doctor."""

    layer: str
    cause: str
    severity: Literal["error", "warning", "note"]
    symptom: str
    likely_cause: str
    next_action: str
    evidence: list[NamedText]
    """Where, and the quoted text."""
    task: TaskName | None
    rollout: int | None


class FailureTree(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/failures`: the failed attempts as a tree, and the diagnosis."""

    nodes: list[FailureNode]
    attempts: int
    absent: str
    findings: list[FindingLine]
    """What `palestra diagnose` says."""
    consequences: list[str]
