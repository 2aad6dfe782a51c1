"""`CalendarServer`: compares the calendar in the model's last message with the user's constraints."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, permutations
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator

from palestra.schema import (
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    encode_json,
    response_of,
)
from palestra.server import ResourcesServer, ResourcesServerConfig

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_SECONDS = re.compile(r":00(?=\s*(?:[ap]\.?m\.?)?$)", re.IGNORECASE)
_SPOKEN = re.compile(r"(1[0-2]|[1-9])(?::([0-5][0-9]))?\s*([ap])\.?m\.?", re.IGNORECASE)
NOON = 12 * 60


def clock(text: str) -> int | None:
    """Read a 24-hour time like `14:05` as minutes since midnight; None when it is not a time."""
    match = _CLOCK.fullmatch(text.strip())
    return int(match[1]) * 60 + int(match[2]) if match else None


def spoken(text: str) -> int | None:
    """Read a time like `2:05pm`, `10 am` or `noon` (12pm) as minutes since midnight.

    None when it is not such a time.
    """
    if text.strip().lower() == "noon":
        return NOON
    match = _SPOKEN.fullmatch(text.strip())
    if match is None:
        return None
    hours = int(match[1]) % 12 + (12 if match[3] in "pP" else 0)
    return hours * 60 + int(match[2] or 0)


def written(text: str) -> int | None:
    """Read a time in any form that models write: `14:05`, `14:05:00`, `2:05 PM`.

    Returns minutes since midnight; None when it is not a time.
    """
    bare = text.strip()
    if bare.count(":") == 2:
        bare = _SECONDS.sub("", bare)
    time = clock(bare)
    return spoken(bare) if time is None else time


_BETWEEN = re.compile(r"between\s+(.+?)\s+and\s+(.+)", re.IGNORECASE)
_ONE = re.compile(r"(before|after|at)\s+(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Window:
    """The allowed time of an event: it starts at or after `earliest` and ends at or before
    `latest`.

    All in minutes since midnight. `exactly`: the required start; None when any start will do.
    """

    earliest: int = 0
    latest: int = 24 * 60
    exactly: int | None = None

    def holds(self, start: int, end: int) -> bool:
        """Whether an event from `start` to `end` lies in this window."""
        exact = self.exactly is None or start == self.exactly
        return exact and self.earliest <= start and end <= self.latest


def window_of(constraint: str | None) -> Window | None:
    """Read a constraint like `before 2pm`, `after 10:15am`, `between 10am and 1pm` or `at noon`.

    No constraint gives a window of the whole day. None when the constraint cannot be read.
    """
    if constraint is None or not constraint.strip():
        return Window()
    if match := _BETWEEN.fullmatch(constraint.strip()):
        low, high = spoken(match[1]), spoken(match[2])
        return None if low is None or high is None else Window(low, high)
    match = _ONE.fullmatch(constraint.strip())
    time = spoken(match[2]) if match else None
    if match is None or time is None:
        return None
    kind = match[1].lower()
    if kind == "before":
        return Window(latest=time)
    return Window(earliest=time) if kind == "after" else Window(exactly=time)


def _is_a_time(text: str) -> str:
    if clock(text) is None:
        raise ValueError("not a time of day like 16:00")
    return text


Clock = Annotated[str, AfterValidator(_is_a_time)]


class ExpectedEvent(WireModel):
    """An event of the right calendar, with the time limits that the user set."""

    event_id: int
    duration: int = Field(gt=0)
    """The length of the event in minutes."""
    constraint: str | None = None
    """When the event may take place, in the user's words. None allows any time of the day."""
    min_time: Clock = "00:00"
    """The start of the day: the event does not start earlier."""
    max_time: Clock = "23:59"
    """The end of the day: the event does not end later."""

    @field_validator("constraint")
    @classmethod
    def _is_readable(cls, text: str | None) -> str | None:
        if window_of(text) is None:
            raise ValueError(
                f"{text!r} must be one of: before TIME, after TIME, at TIME, between TIME and TIME"
            )
        return text

    def allows(self, start: int, end: int) -> bool:
        """Whether an event from `start` to `end` (minutes since midnight) meets its constraint and
        lies between `min_time` and `max_time`.
        """
        window = window_of(self.constraint)
        day = Window(clock(self.min_time) or 0, clock(self.max_time) or 0)
        return window is not None and window.holds(start, end) and day.holds(start, end)


_STEP_MIN = 5
"""Minutes between the start times that are tried for an event."""
_MOST_PLANNED_EVENTS = 7
"""The largest number of events whose orders are tried; more events have too many orders."""
_BEGINNING = re.compile(r"\[\s*(?:\{|\])")
_DECODER = json.JSONDecoder()
LONGEST_TEXT = 200_000
"""The number of characters at the end of the text that are searched."""
MOST_TRIES = 50
"""The most positions in a text at which a calendar is looked for."""


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """An event that the model wrote; `start` and `duration` in minutes."""

    event_id: int
    start: int
    duration: int

    @property
    def end(self) -> int:
        """The end of the event, in minutes since midnight."""
        return self.start + self.duration


def events_of(text: str) -> Sequence[WrittenEvent] | None:
    """Return the events of the last calendar in `text`; None when no calendar can be read.

    An empty list `[]` may be part of a sentence, so it counts only when the text has no other list.
    """
    entries = _last_list(text[-LONGEST_TEXT:])
    if entries is None:
        return None
    events = [_event(entry) for entry in entries]
    written = [event for event in events if event is not None]
    return written if len(written) == len(events) else None


def _last_list(text: str) -> list[Any] | None:
    last_list, at = None, 0
    for _ in range(MOST_TRIES):
        match = _BEGINNING.search(text, at)
        if match is None:
            break
        try:
            entries, at = _DECODER.raw_decode(text, match.start())
            last_list = entries or last_list or []
        except (ValueError, RecursionError):
            at = match.start() + 1
    return last_list


def _event(entry: object) -> WrittenEvent | None:
    if not isinstance(entry, dict):
        return None
    number, start, duration = (entry.get(key) for key in ("event_id", "start_time", "duration"))
    minutes = written(start) if isinstance(start, str) else None
    times = _whole_number(number), _whole_number(duration)
    if minutes is None or times[0] is None or times[1] is None:
        return None
    return WrittenEvent(times[0], minutes, times[1])


def _whole_number(value: object) -> int | None:
    """Read a whole number, also from a string of digits or a float like 60.0; None for anything
    else.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class CalendarVerifyRequest(VerifyRequest):
    """The fields that a row needs for its calendar to be verified."""

    exp_cal_state: dict[str, ExpectedEvent] = Field(min_length=1)
    """The events that the calendar must contain, by id; other events are an error."""


class CalendarServer(ResourcesServer):
    """A resources server that verifies the last calendar in the model's last message."""

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a calendar that meets every constraint; None when the search found none."""
        events = [ExpectedEvent.model_validate(e) for e in row["exp_cal_state"].values()]
        planned = _plan(events)
        return None if planned is None else response_of(planned)

    async def verify(self, body: CalendarVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the calendar meets every constraint; else 0.0, with `violation`."""
        events = events_of(body.response.final_text)
        violation = _first_violation(events, list(body.exp_cal_state.values()))
        return self.reply(body, float(violation is None), violation=violation)


def _first_violation(
    events: Sequence[WrittenEvent] | None, expected: Sequence[ExpectedEvent]
) -> str | None:
    """Describe the first error of the calendar in one sentence; None when it has no error."""
    if events is None:
        return "no calendar that can be read"
    expected_by_id = {event.event_id: event for event in expected}
    return next(
        chain(
            _other_events(events, expected_by_id), _moved(events, expected_by_id), _overlaps(events)
        ),
        None,
    )


def _other_events(
    events: Sequence[WrittenEvent], expected: Mapping[int, ExpectedEvent]
) -> Iterator[str]:
    written = {event.event_id for event in events}
    if len(written) < len(events):
        yield "an event is there twice"
    yield from (f"event {number} was not asked for" for number in sorted(written - expected.keys()))
    yield from (f"event {number} is missing" for number in sorted(expected.keys() - written))


def _moved(events: Sequence[WrittenEvent], expected: Mapping[int, ExpectedEvent]) -> Iterator[str]:
    for event in sorted(events, key=lambda event: event.event_id):
        constraint = expected[event.event_id]
        if event.duration != constraint.duration:
            yield f"event {event.event_id} does not take {constraint.duration} minutes"
        if not constraint.allows(event.start, event.end):
            yield f"event {event.event_id} is not when it was asked for"


def _overlaps(events: Sequence[WrittenEvent]) -> Iterator[str]:
    for earlier, later in pairwise(sorted(events, key=lambda event: event.start)):
        if earlier.end > later.start:
            yield f"events {earlier.event_id} and {later.event_id} overlap"


def _plan(events: Sequence[ExpectedEvent]) -> str | None:
    """Return a right calendar as JSON text.

    None when there are too many events to try all orders, or when no order works.
    """
    if len(events) > _MOST_PLANNED_EVENTS:
        return None
    for order in permutations(events):
        starts = _starts(order)
        if starts is not None:
            entries = [
                {
                    "event_id": event.event_id,
                    "event_name": f"event {event.event_id}",
                    "start_time": f"{start // 60:02}:{start % 60:02}",
                    "duration": event.duration,
                }
                for event, start in zip(order, starts, strict=True)
            ]
            return encode_json(entries).decode()
    return None


def _starts(order: Sequence[ExpectedEvent]) -> list[int] | None:
    """Return the start of each event in this order, each as early as possible; None when one cannot
    fit.
    """
    starts: list[int] = []
    free = 0
    for event in order:
        begins = range(free, 24 * 60 - event.duration, _STEP_MIN)
        start = next((at for at in begins if event.allows(at, at + event.duration)), None)
        if start is None:
            return None
        starts.append(start)
        free = start + event.duration
    return starts
