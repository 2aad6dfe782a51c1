"""The reply about the differences between two rollouts."""

from typing import Literal

from palestra.viewer.replies.base import Reply
from palestra.viewer.replies.rollout import OutlineItem, RolloutPage


class DiffPiece(Reply, frozen=True, kw_only=True):
    """A piece of text: `-` is in A only, `+` in B only, `=` in both."""

    op: Literal["-", "+", "="]
    text: str


class DiffItem(Reply, frozen=True, kw_only=True):
    """Two aligned items; null where one side has none. `same`: their texts are equal."""

    a: OutlineItem | None
    b: OutlineItem | None
    same: bool
    pieces: list[DiffPiece]
    """Empty when the texts are equal or one side is null."""
    by_lines: bool
    """Whether the pieces are lines: words took too long."""


class TokenDifference(Reply, frozen=True, kw_only=True):
    """Where token ids first differ."""

    turn: int
    position: int
    a: int | None
    b: int | None


class Diff(Reply, frozen=True, kw_only=True):
    """`/api/diff`: two rollouts, item by item."""

    a: RolloutPage
    b: RolloutPage
    runs: list[str]
    """The names of the runs of A and B; empty when both are of one run."""
    expected: list[str]
    """The expected answer of the task: one, two where A and B have different ones, or none."""
    items: list[DiffItem]
    start: int
    total: int
    limit: int
    """The largest number of items in one reply."""
    first_token: TokenDifference | None
    """The first token id that differs; null when there are no ids or none differs."""
