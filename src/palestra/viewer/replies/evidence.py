"""The reply about why a rollout has its reward."""

from palestra.viewer.replies.base import NamedText, Reply


class JudgeEvaluation(Reply, frozen=True, kw_only=True):
    """One question to a judge, and its verdict."""

    question: str
    answer: str
    verdict: str
    fields: list[NamedText]


class EvidenceSpan(Reply, frozen=True, kw_only=True):
    """The part of an item that earned a component, in UTF-16 code units from its beginning."""

    at: int
    start: int
    end: int
    text: str
    """The first 200 characters of it."""


class ComponentValue(Reply, frozen=True, kw_only=True):
    """One component of the reward, with its evidence."""

    name: str
    value: float | None
    evidence: list[EvidenceSpan]


class RewardPanel(Reply, frozen=True, kw_only=True):
    """`…/reward`: why the rollout has its reward."""

    reward: float | None
    components: list[ComponentValue]
    fields: list[NamedText]
    """What the verifier and the row say: expected answer, extracted answer, …"""
    evaluations: list[JudgeEvaluation]
    notes: list[str]
    """Evidence that points nowhere, and the like."""
    absent: str
