"""The replies about one rollout: its head and its conversation."""

from typing import Literal

from palestra.viewer.replies.base import Cell, Reply, TaskName

OUTLINE_ITEMS = 500
"""The largest number of items in one page of an outline."""
HEAD_CHARACTERS = 200
"""The number of characters of an item that an outline shows."""
RANGE_BYTES = 65_536
"""The largest size of one range of a text, in bytes of UTF-8."""


class RolloutPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/t/{task}/{rollout}`: the head of a rollout."""

    row: int | None
    """The row of the result; null when the rollout has only inputs or failures."""
    task: TaskName | None
    rollout: int | None
    outcome: str
    reward: float | None
    agent: str
    model: str
    prompt_items: int
    output_items: int
    source: Literal["scored", "failed", "inputs"]
    """Where the conversation comes from: a failed attempt may have kept an answer."""
    truncated: bool
    bytes: int
    file: str
    line: int | None
    attempts: int
    """The number of failed attempts."""
    has_tokens: bool
    marks: list[str]
    previous: list[Cell] | None
    """Task and rollout of the row before it in the table; null at the beginning."""
    next: list[Cell] | None


class Mark(Reply, frozen=True, kw_only=True):
    """A piece of an item's text, in UTF-16 code units from its beginning, as the page counts."""

    start: int
    end: int
    kind: Literal["found here", "earned by"]
    field: str


class OutlineItem(Reply, frozen=True, kw_only=True):
    """One item of a conversation."""

    at: int
    """The position in the outline, from 0: first the prompt's items, then the output's."""
    part: Literal["prompt", "output"]
    kind: str
    """A role, or `reasoning`, `call`, `result` or `other`."""
    name: str
    """The called tool, or the type of an unknown item."""
    call_id: str
    pair: int | None
    """The position of the output of this call, or of the call of this output."""
    unpaired: bool
    """Whether this is a call without output, or an output without call."""
    size: int
    """The size of the text in bytes of UTF-8."""
    head: str
    """The first 200 characters of the text."""
    images: int
    turn: int | None
    """The number of the model turn that the item belongs to, from 0; null for others."""
    json: bool
    """Whether the text is JSON of an item of unknown form."""
    found: list[Mark]
    """Where text of the reward panel's fields stands in this item."""


class OutlinePage(Reply, frozen=True, kw_only=True):
    """`…/outline`: 500 items from `start`."""

    items: list[OutlineItem]
    start: int
    total: int


class ImagePart(Reply, frozen=True, kw_only=True):
    """An image: `type` is its media type when it can be shown; else `text` says what is there."""

    part: int
    type: Literal["image/png", "image/jpeg", "image/gif", "image/webp", ""]
    bytes: int
    text: str


class ItemText(Reply, frozen=True, kw_only=True):
    """`…/item`: a range of an item's text. `start`, `end` and `size` count bytes as the file has
    them, with its escapes: `end` is the `start` of the next range, and `size` that of none.
    """

    at: int
    start: int
    end: int
    size: int
    text: str
    images: list[ImagePart]
    """The images of the item; only with `start` 0."""


class TranscriptHit(Reply, frozen=True, kw_only=True):
    """A place in the conversation, in UTF-16 code units from the beginning of the item's text."""

    at: int
    start: int
    end: int
    excerpt: str


class TranscriptHits(Reply, frozen=True, kw_only=True):
    """`…/find`: at most 1,000 places that hold the text, without case."""

    hits: list[TranscriptHit]
    more: bool
