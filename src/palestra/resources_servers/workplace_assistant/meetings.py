"""The tools for the calendar."""

from datetime import datetime, timedelta

from palestra.resources_servers.workplace_assistant.desk import (
    PAGE_SIZE,
    Desk,
    Output,
    holds_words,
    page_of,
)
from palestra.resources_servers.workplace_assistant.records import Record
from palestra.server import Session, tool

_FORMAT = "%Y-%m-%d %H:%M:%S"


class CalendarTools(Desk):
    """Tools that search, create, change and delete events."""

    @tool
    async def calendar_get_event_information_by_id(
        self, session: Session, event_id: str, field: str
    ) -> Output:
        """Returns the event for a given ID.

        event_id: 8-digit ID of the event
        field: Field to return: 'event_id', 'event_name', 'participant_email', 'event_start', 'duration'
        """
        return self.looked_up(session, "events", event_id, field)

    @tool
    async def calendar_search_events(
        self,
        session: Session,
        query: str = "",
        time_min: str | None = None,
        time_max: str | None = None,
        page: int = 1,
        page_size: int = PAGE_SIZE,
    ) -> Output:
        """Returns the events for a given query, the earliest first.

        query: Query to search for, in the event_name and participant_email fields
        time_min: Lower bound (inclusive) for an event's end time. Format: YYYY-MM-DD HH:MM:SS
        time_max: Upper bound (inclusive) for an event's start time. Format: YYYY-MM-DD HH:MM:SS
        page: Page number of results to return
        page_size: Number of events per page
        """
        matches = [
            event
            for event in self.at(session).all("events")
            if holds_words(query, event, ("event_name", "participant_email"))
            and (time_min is None or _end(event)[: len(time_min)] >= time_min)
            and (time_max is None or event["event_start"][: len(time_max)] <= time_max)
        ]
        matches.sort(key=lambda event: event["event_start"])
        return page_of(matches, "events", page, page_size)

    @tool
    async def calendar_create_event(
        self,
        session: Session,
        event_name: str,
        participant_email: str,
        event_start: str,
        duration: str,
    ) -> Output:
        """Creates a new event.

        event_name: Name of the event
        participant_email: Email of the participant
        event_start: Start time of the event. Format: YYYY-MM-DD HH:MM:SS
        duration: Duration of the event in minutes
        """
        event = {
            "event_name": event_name,
            "participant_email": participant_email,
            "event_start": event_start,
            "duration": duration,
        }
        return self.added(session, "events", event)

    @tool
    async def calendar_delete_event(self, session: Session, event_id: str) -> Output:
        """Deletes an event.

        event_id: 8-digit ID of the event
        """
        return self.deleted(session, "events", event_id)

    @tool
    async def calendar_update_event(
        self, session: Session, event_id: str, field: str, new_value: str
    ) -> Output:
        """Updates an event.

        event_id: 8-digit ID of the event
        field: Field to update: 'event_name', 'participant_email', 'event_start', 'duration'
        new_value: New value for the field
        """
        return self.updated(session, "events", event_id, {field: new_value})


def _end(event: Record) -> str:
    """Return the end of an event; its start when the start or the duration cannot be read."""
    try:
        start = datetime.strptime(event["event_start"], _FORMAT)  # noqa: DTZ007  # office time
        return (start + timedelta(minutes=int(event["duration"]))).strftime(_FORMAT)
    except (ValueError, OverflowError):
        return event["event_start"]
