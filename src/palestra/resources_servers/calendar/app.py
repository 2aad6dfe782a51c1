"""`CalendarServer`: the calendar in the model's last message against what the user asked for."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from palestra.resources_servers.calendar.checks import first_violation
from palestra.resources_servers.calendar.expected import ExpectedEvent
from palestra.resources_servers.calendar.planning import plan_of
from palestra.resources_servers.calendar.written import events_of
from palestra.schema import Response, VerifyRequest, VerifyResponse, response_of
from palestra.serving import ResourcesServer, ResourcesServerConfig


class CalendarVerifyRequest(VerifyRequest):
    """What a row must say for its calendar to be judged."""

    exp_cal_state: dict[str, ExpectedEvent] = Field(min_length=1)
    """The events that must be there, and nothing else, by id."""


class CalendarServer(ResourcesServer):
    """Judges the last calendar of the last message."""

    config: ResourcesServerConfig

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        """A calendar that keeps every constraint; None when none was found."""
        events = [ExpectedEvent.model_validate(e) for e in row["exp_cal_state"].values()]
        planned = plan_of(events)
        return None if planned is None else response_of(planned)

    async def verify(self, body: CalendarVerifyRequest) -> VerifyResponse:
        """1.0 when the calendar keeps every constraint; else 0.0, and `violation` says which."""
        events = events_of(body.response.final_text)
        violation = first_violation(events, list(body.exp_cal_state.values()))
        return self.reply(body, float(violation is None), violation=violation)
