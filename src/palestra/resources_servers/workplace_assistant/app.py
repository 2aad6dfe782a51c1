"""`WorkplaceServer`: an office of 27 tools; a rollout is judged by what it changed.

The trajectory's calls and the row's gold calls are each replayed on an office of its own, and the
effects compared. So the way does not matter, nor what was only read, and a stored rollout can be
judged again.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from palestra.errors import RowError
from palestra.resources_servers.arguments import json_object
from palestra.resources_servers.workplace_assistant.analytics import AnalyticsTools
from palestra.resources_servers.workplace_assistant.crm import CustomerTools
from palestra.resources_servers.workplace_assistant.mail import MailTools
from palestra.resources_servers.workplace_assistant.meetings import CalendarTools
from palestra.resources_servers.workplace_assistant.projects import ProjectTools
from palestra.resources_servers.workplace_assistant.records import Effects, Office
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    called,
    response_of,
)
from palestra.serving import ResourcesServer, ResourcesServerConfig, ReverifyMode, Session
from palestra.serving.tools import arguments_model

RECORDS = Path(__file__).with_name("data") / "office.json"
_CHANGES = re.compile(r"_(create|update|delete|send|forward|reply|add)_")
_REFUSED = re.compile(
    r"\b(no \w+ (with|found)|not found|there is no|must be|not an? |invalid|error|detail)\b",
    re.IGNORECASE,
)


class GoldCall(WireModel):
    """One call that does a part of the task."""

    name: str
    arguments: str
    """A JSON object, as a model would write it."""

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        text = value if isinstance(value, str) else None
        if text is None or json_object(text) is None:
            raise ValueError("not the text of a JSON object")
        return text


class WorkplaceVerifyRequest(VerifyRequest):
    """What a row must say for its rollout to be judged."""

    ground_truth: list[GoldCall]
    """Calls that do the task; empty when nothing is to be changed."""


class WorkplaceServerConfig(ResourcesServerConfig):
    """Settings of this environment."""

    records: Path = Field(default=RECORDS)
    """The office's records, as `make_office.py` writes them."""


class WorkplaceServer(
    MailTools, CalendarTools, ProjectTools, CustomerTools, AnalyticsTools, ResourcesServer
):
    """Holds an office for each session."""

    config: WorkplaceServerConfig
    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    _office: Office | None = PrivateAttr(default=None)

    async def start(self) -> None:
        """Read the records before the first request."""
        self._office = await asyncio.to_thread(Office.load, self.config.records)

    def office(self) -> Office:
        """The records as they are at first."""
        if self._office is None:
            self._office = Office.load(self.config.records)
        return self._office

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        """The gold calls; where nothing is to be changed, most answers are right."""
        gold = enumerate(row["ground_truth"])
        calls = [called(call["name"], call["arguments"], f"call_{number}") for number, call in gold]
        return response_of(*calls) if calls else None

    async def verify(self, body: WorkplaceVerifyRequest) -> VerifyResponse:
        """1.0 when exactly the changes were made that the gold calls make; else 0.0."""
        done = await self._done(body.response)
        asked = await self._asked(body.ground_truth)
        return self.reply(
            body,
            float(done == asked),
            changes_made=_count(done),
            changes_expected=_count(asked),
        )

    async def _done(self, response: Response) -> Effects:
        """What the calls of a trajectory changed; those without an output were never run."""
        outputs = {
            item.call_id: str(item.output)
            for item in response.output
            if isinstance(item, FunctionCallOutput)
        }
        session = Session("done")
        for item in response.output:
            if not isinstance(item, FunctionCall) or item.call_id not in outputs:
                continue
            refused = _REFUSED.search(outputs[item.call_id]) is not None
            self.take_on_trust(session, on=not refused)
            arguments = json_object(item.arguments)
            if arguments is not None:
                await self._replayed(session, item.name, arguments)
        return self.at(session).effects()

    async def _asked(self, gold: list[GoldCall]) -> Effects:
        session = Session("asked")
        self.take_on_trust(session, on=True)
        for number, call in enumerate(gold):
            if not await self._replayed(session, call.name, json_object(call.arguments) or {}):
                raise RowError(
                    f"ground_truth[{number}]: {call.name} cannot be called with {call.arguments}"
                )
        return self.at(session).effects()

    async def _replayed(self, session: Session, name: str, arguments: Mapping[str, Any]) -> bool:
        """Make a call again, if it could change anything; whether there is such a call."""
        method = self._tool_methods.get(name)
        if method is None:
            return False
        model = arguments_model(method)
        try:
            given = model.model_validate(dict(arguments))
        except ValidationError:
            return False
        if _CHANGES.search(name):
            await method(
                session=session, **{key: getattr(given, key) for key in model.model_fields}
            )
        return True


def _count(effects: Effects) -> int:
    return len(effects.edits) + effects.born.total() + effects.plots.total()
