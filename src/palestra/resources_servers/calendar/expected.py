"""What the user asked for: events, and when they may be."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from palestra.resources_servers.calendar.times import clock, spoken
from palestra.schema import WireModel

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
