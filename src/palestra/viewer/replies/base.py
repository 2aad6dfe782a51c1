"""The parts that replies of several pages share."""

import msgspec

TaskName = int | str
"""The index of a task, as the rows have it."""
Cell = float | int | bool | str | None
"""The value of a cell; null when the row lacks the field."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every reply, and of its parts."""


class IntervalValue(Reply, frozen=True, kw_only=True):
    """A number with its 95 % interval. `low` and `high` are null when there are too few tasks."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Count(Reply, frozen=True, kw_only=True):
    """How often a value occurs."""

    name: str
    count: int


class Base(Reply, frozen=True, kw_only=True):
    """What the numbers of a reply rest on, while an index is still read."""

    rows: int
    """The number of indexed rows."""
    indexed_bytes: int
    total_bytes: int
    complete: bool
    """Whether everything that the files hold is indexed."""
    version: int
    """Grows with the index. A reply of an older version is asked for again."""


class ErrorReply(Reply, frozen=True, kw_only=True):
    """Any error. `message`: what happened; `hint`: what to do."""

    error: str
    """The class of the error, such as `ConfigError`; `RunChanged` for 409."""
    message: str
    hint: str = ""
    layer: str = ""
    where: str = ""
    """The part that failed, such as `tokens of 17:3`."""
    position: int | None = None
    """For a query: the position of the wrong character, from 0."""
    nearest: str = ""
    """For a query: the field that was probably meant."""
    indexed: Base | None = None
    """For `StillIndexing`: how far the index is. The page asks again."""


class NamedText(Reply, frozen=True, kw_only=True):
    """A name and a value, both as text."""

    name: str
    value: str
