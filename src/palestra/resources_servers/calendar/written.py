"""From a model's text to the calendar in it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palestra.resources_servers.calendar.times import written

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
