"""Whether a calendar keeps everything that was asked of it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from palestra.resources_servers.calendar.expected import ExpectedEvent
from palestra.resources_servers.calendar.written import WrittenEvent


def first_violation(
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
