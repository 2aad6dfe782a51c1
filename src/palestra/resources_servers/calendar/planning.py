"""A calendar that keeps to what was asked, found by trying."""

from collections.abc import Sequence
from itertools import permutations

from palestra.resources_servers.calendar.expected import ExpectedEvent
from palestra.schema import encode_json

STEP = 5
"""Minutes between the times at which an event is tried."""
MOST_EVENTS = 7
"""With more there are too many orders to try."""


def plan_of(events: Sequence[ExpectedEvent]) -> str | None:
    """The calendar as a model would write it; None when no order of the events works out."""
    if len(events) > MOST_EVENTS:
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
        begins = range(free, 24 * 60 - event.duration, STEP)
        start = next((at for at in begins if event.allows(at, at + event.duration)), None)
        if start is None:
            return None
        starts.append(start)
        free = start + event.duration
    return starts
