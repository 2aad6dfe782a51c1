"""`CalendarServer`: the calendar in the model's last message against what the user asked for."""

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
    """`14:05`, or None when it is no time."""
    match = _CLOCK.fullmatch(text.strip())
    return int(match[1]) * 60 + int(match[2]) if match else None


def spoken(text: str) -> int | None:
    """`2:05pm`, `10 am`, `noon`, which is 12pm; or None when it is no time."""
    if text.strip().lower() == "noon":
        return NOON
    match = _SPOKEN.fullmatch(text.strip())
    if match is None:
        return None
    hours = int(match[1]) % 12 + (12 if match[3] in "pP" else 0)
    return hours * 60 + int(match[2] or 0)


def written(text: str) -> int | None:
    """A time as a model may write it: `14:05`, `14:05:00`, `2:05 PM`; or None when it is no time."""
    bare = text.strip()
    if bare.count(":") == 2:
        bare = _SECONDS.sub("", bare)
    time = clock(bare)
    return spoken(bare) if time is None else time


_BETWEEN = re.compile(r"between\s+(.+?)\s+and\s+(.+)", re.IGNORECASE)
_ONE = re.compile(r"(before|after|at)\s+(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Window:
    """When an event may be: it starts at or after `earliest`, and ends at or before `latest`.

    In minutes since midnight. `exactly`: when it must start.
    """

    earliest: int = 0
    latest: int = 24 * 60
    exactly: int | None = None

    def holds(self, start: int, end: int) -> bool:
        """Whether an event from `start` to `end` keeps to it."""
        exact = self.exactly is None or start == self.exactly
        return exact and self.earliest <= start and end <= self.latest


def window_of(constraint: str | None) -> Window | None:
    """`before 2pm`, `after 10:15am`, `between 10am and 1pm`, `at noon`; None if unreadable."""
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
    """One event of the right calendar."""

    event_id: int
    duration: int = Field(gt=0)
    """Minutes."""
    constraint: str | None = None
    """When it may be, as the user said it."""
    min_time: Clock = "00:00"
    """The day begins; no event starts before."""
    max_time: Clock = "23:59"
    """The day ends; no event ends after."""

    @field_validator("constraint")
    @classmethod
    def _is_readable(cls, text: str | None) -> str | None:
        if window_of(text) is None:
            raise ValueError(
                f"{text!r} is none of: before TIME, after TIME, at TIME, between TIME and TIME"
            )
        return text

    def allows(self, start: int, end: int) -> bool:
        """Whether an event from `start` to `end` (minutes since midnight) keeps to all of it."""
        window = window_of(self.constraint)
        day = Window(clock(self.min_time) or 0, clock(self.max_time) or 0)
        return window is not None and window.holds(start, end) and day.holds(start, end)


_STEP_MIN = 5
"""Minutes between the times at which an event is tried."""
_MOST_PLANNED_EVENTS = 7
"""With more there are too many orders to try."""
_BEGINNING = re.compile(r"\[\s*(?:\{|\])")
_DECODER = json.JSONDecoder()
LONGEST_TEXT = 200_000
"""Characters at the end of the text that are looked at."""
MOST_TRIES = 50
"""Places where a calendar may begin; a text with more is not one that answers."""


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """An event as the model wrote it; `start` and `duration` in minutes."""

    event_id: int
    start: int
    duration: int

    @property
    def end(self) -> int:
        """When it is over, in minutes since midnight."""
        return self.start + self.duration


def events_of(text: str) -> Sequence[WrittenEvent] | None:
    """The events of the last calendar in `text`; None when there is none that can be read.

    An empty list may be a turn of phrase: it is the calendar only where there is no other.
    """
    entries = _last_list(text[-LONGEST_TEXT:])
    if entries is None:
        return None
    events = [_event(entry) for entry in entries]
    read = [event for event in events if event is not None]
    return read if len(read) == len(events) else None


def _last_list(text: str) -> list[Any] | None:
    found, at = None, 0
    for _ in range(MOST_TRIES):
        match = _BEGINNING.search(text, at)
        if match is None:
            break
        try:
            entries, at = _DECODER.raw_decode(text, match.start())
            found = entries or found or []
        except (ValueError, RecursionError):
            at = match.start() + 1
    return found


def _event(entry: object) -> WrittenEvent | None:
    if not isinstance(entry, dict):
        return None
    number, start, duration = (entry.get(key) for key in ("event_id", "start_time", "duration"))
    minutes = written(start) if isinstance(start, str) else None
    whole = _whole(number), _whole(duration)
    if minutes is None or whole[0] is None or whole[1] is None:
        return None
    return WrittenEvent(whole[0], minutes, whole[1])


def _whole(value: object) -> int | None:
    """A whole number, also one in quotes or written as 60.0."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class CalendarVerifyRequest(VerifyRequest):
    """What a row must say for its calendar to be judged."""

    exp_cal_state: dict[str, ExpectedEvent] = Field(min_length=1)
    """The events that must be there, and nothing else, by id."""


class CalendarServer(ResourcesServer):
    """Judges the last calendar of the last message."""

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """A calendar that keeps every constraint; None when none was found."""
        events = [ExpectedEvent.model_validate(e) for e in row["exp_cal_state"].values()]
        planned = _plan(events)
        return None if planned is None else response_of(planned)

    async def verify(self, body: CalendarVerifyRequest) -> VerifyResponse:
        """1.0 when the calendar keeps every constraint; else 0.0, and `violation` says which."""
        events = events_of(body.response.final_text)
        violation = _first_violation(events, list(body.exp_cal_state.values()))
        return self.reply(body, float(violation is None), violation=violation)


def _first_violation(
    events: Sequence[WrittenEvent] | None, expected: Sequence[ExpectedEvent]
) -> str | None:
    """What is wrong with the calendar, in a sentence; None when nothing is."""
    if events is None:
        return "no calendar that can be read"
    wanted = {event.event_id: event for event in expected}
    return next(
        chain(_other_events(events, wanted), _moved(events, wanted), _overlaps(events)), None
    )


def _other_events(
    events: Sequence[WrittenEvent], wanted: Mapping[int, ExpectedEvent]
) -> Iterator[str]:
    written = {event.event_id for event in events}
    if len(written) < len(events):
        yield "an event is there twice"
    yield from (f"event {number} was not asked for" for number in sorted(written - wanted.keys()))
    yield from (f"event {number} is missing" for number in sorted(wanted.keys() - written))


def _moved(events: Sequence[WrittenEvent], wanted: Mapping[int, ExpectedEvent]) -> Iterator[str]:
    for event in sorted(events, key=lambda event: event.event_id):
        asked = wanted[event.event_id]
        if event.duration != asked.duration:
            yield f"event {event.event_id} does not take {asked.duration} minutes"
        if not asked.allows(event.start, event.end):
            yield f"event {event.event_id} is not when it was asked for"


def _overlaps(events: Sequence[WrittenEvent]) -> Iterator[str]:
    for one, other in pairwise(sorted(events, key=lambda event: event.start)):
        if one.end > other.start:
            yield f"events {one.event_id} and {other.event_id} overlap"


def _plan(events: Sequence[ExpectedEvent]) -> str | None:
    """The calendar as a model would write it; None when no order of the events works out."""
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
    """When each event begins, as early as the one before allows."""
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
