"""The bodies of the rollout service's requests and responses.

A stream is lines of JSON. Its last line is `PageEnd` or `StreamEnd`; a stream without such a line
was cut, and is taken up again after the lines that arrived.
"""

from typing import Annotated, Any, Final

import msgspec

from palestra.schema import JsonDict
from palestra.training.groups import Group
from palestra.training.outcomes import Completed, Failed, Outcome, Summary
from palestra.training.raw import RawRow
from palestra.training.requests import Key, RolloutRequest
from palestra.training.settings import ClientSettings

SERVICE: Final = "palestra rollouts"
LINES_TYPE: Final = "application/x-ndjson"
PACKED_TYPE: Final = "application/vnd.msgpack"
MOST_LINES: Final = 1024
"""The largest number of lines that wait for their acknowledgement, for each batch."""
LONGEST_WAIT_S: Final = 60.0
NO_ERROR: Final = msgspec.Raw(b"null")

Count = Annotated[int, msgspec.Meta(ge=0)]


class ServiceStatus(msgspec.Struct, frozen=True):
    """What a service is, and how it is set."""

    service: str
    version: int
    lease_s: float
    """The time in seconds after which a batch whose client is silent is cancelled."""
    settings: Annotated[JsonDict, msgspec.Meta(examples=[msgspec.to_builtins(ClientSettings())])]
    """The fields of `ClientSettings`."""
    weight_version: int | None = None
    """The weight version that was set last; null before the first."""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission."""

    requests: list[RolloutRequest]
    deadline_s: float | None = None
    """The time in seconds in which all rollouts must end; null: the service's setting."""
    on_incomplete: str | dict[str, str] | None = None
    """The policy of this batch, or a policy by failure class; null: the service's setting."""
    min_fraction: float | None = None
    """The smallest fraction of the batch that must come back; null: the service's setting."""


class BatchState(msgspec.Struct, frozen=True):
    """The state of a submission."""

    id: str
    summary: Summary
    lease_s: float
    silent_s: float = 0.0
    """The time in seconds since the last request about the batch."""


class BatchList(msgspec.Struct, frozen=True):
    """The submissions that a service has."""

    batches: list[BatchState]


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rollouts to cancel, as pairs of task id and rollout index; null: all."""

    keys: list[Key] | None = None


class WeightVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version of the weights that the model's endpoint serves from now on."""

    version: int


class Nothing(msgspec.Struct, frozen=True):
    """An empty object."""


class LinesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which lines of a stream are wanted."""

    after: Count = 0
    """The number of lines that the client has. They are acknowledged, and cannot be had again."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LINES)] = 256
    """The largest number of lines. Then the stream ends, and the next request goes on after them."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_S)] = 20.0
    """The longest time in seconds without a line, after which the stream ends."""
    follow: bool = True
    """Whether the stream goes on after the lines that are ready; false: it ends with them."""
    packed: bool = False
    """Whether the lines come as one MessagePack array, whose last element is the last line of JSON
    as bytes. It takes a fraction of the time, and ends with the lines that are ready."""


class GroupsQuery(LinesQuery, frozen=True, kw_only=True):
    """Which groups are wanted."""

    size: Annotated[int, msgspec.Meta(ge=1)]
    """The number of members that each group of the batch has."""


class CompletedLine(Completed, frozen=True, kw_only=True, tag_field="outcome", tag="completed"):
    """A `Completed` whose raw row is still packed: most trainers never read it."""

    raw: msgspec.Raw  # type: ignore[assignment]  # it is packed in the same way


class GroupLine(msgspec.Struct, frozen=True, tag_field="outcome", tag="group"):
    """One group of rollouts."""

    group_id: int | str
    outcomes: list[Completed | Failed]
    left_out: int = 0
    """The number of failed members that are not in `outcomes`."""


class GroupReadLine(msgspec.Struct, frozen=True, tag_field="outcome", tag="group"):
    """A `GroupLine`, as the client reads it."""

    group_id: int | str
    outcomes: list[CompletedLine | Failed]
    left_out: int = 0


class PageEnd(msgspec.Struct, frozen=True, tag_field="outcome", tag="page_end"):
    """The last line of a stream after which there may be more."""

    summary: Summary


class StreamEnd(msgspec.Struct, frozen=True, tag_field="outcome", tag="stream_end"):
    """The last line of the last stream of a batch."""

    summary: Summary
    error: msgspec.Raw
    """The error that ended the batch, as the body of a failed request has it; null without one."""


Line = Completed | Failed | GroupLine | PageEnd | StreamEnd
"""A line, as it is described."""
PackedLine = CompletedLine | Failed | GroupReadLine | bytes
"""An element of a packed page; bytes: the last line, as JSON."""


def group_of(line: GroupReadLine) -> Group:
    """Return the group of a line."""
    members = [outcome_of(outcome) for outcome in line.outcomes]
    return Group(line.group_id, members, line.left_out)


def outcome_of(line: CompletedLine | Failed) -> Outcome:
    """Return the outcome of a line."""
    if isinstance(line, Failed):
        return line
    # A copy: the line's own bytes are a part of the whole page.
    fields = msgspec.structs.asdict(line) | {"raw": RawRow.of_packed(bytes(line.raw))}
    return Completed(**fields)


class Problem(msgspec.Struct, frozen=True):
    """The body of a failed request."""

    error: dict[str, Any]
    """`type`: the class of the error; `message`; `hint`; `layer`; `fields`: what the class adds."""
