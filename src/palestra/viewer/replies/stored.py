"""The replies about what the files hold of a rollout: attempts, times, raw bytes, commands."""

from typing import Literal

from palestra.viewer.replies.base import NamedText, Reply


class Attempt(Reply, frozen=True, kw_only=True):
    """One failed attempt."""

    number: int
    failure_class: str
    layer: str
    cause: str
    message: str
    hint: str
    """What to do about it, where that is not the next action of the last attempt."""
    hops: list[str]
    body: str
    """The innermost body, at most 64 KB."""
    judge_question: str
    """What a judge was asked that failed; empty when no judge failed, or it is unknown."""
    traceback: str
    elapsed_s: float | None
    kept: bool
    """Whether the attempt kept the model's answer."""
    row: int | None


class RolloutAttempts(Reply, frozen=True, kw_only=True):
    """`…/attempts`: the failed attempts, in order."""

    attempts: list[Attempt]
    likely_cause: str
    next_action: str


class TimeSpan(Reply, frozen=True, kw_only=True):
    """A span of a rollout, in seconds after its first event."""

    name: str
    start_s: float
    end_s: float
    detail: str


class Times(Reply, frozen=True, kw_only=True):
    """`…/times`: from the events and the failures. `absent` is set when the files hold no times."""

    spans: list[TimeSpan]
    absent: str
    source: str
    """The file that the times come from."""


class RawRange(Reply, frozen=True, kw_only=True):
    """`…/raw`: a range of the row's bytes; bytes that are no UTF-8 are shown as hexadecimal escapes."""

    text: str
    start: int
    end: int
    size: int


class TreeEntry(Reply, frozen=True, kw_only=True):
    """One member of a JSON value. `path` opens it."""

    key: str
    path: str
    """A JSON pointer."""
    kind: Literal["object", "array", "text", "number", "boolean", "null"]
    size: int
    """Members of an object or array; characters of a text."""
    text: str
    """The first 200 characters of a value that is not an object or array."""


class Tree(Reply, frozen=True, kw_only=True):
    """`…/tree`: the members of the value at `path`, 500 from `start`."""

    path: str
    entries: list[TreeEntry]
    start: int
    total: int


class RolloutCommands(Reply, frozen=True, kw_only=True):
    """`…/commands`: to copy; printable ASCII only."""

    commands: list[NamedText]
    missing: str
    """Which command is not there although the row could be used so, and why; else empty."""
