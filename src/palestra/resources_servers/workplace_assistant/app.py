"""`WorkplaceServer`: an office of 27 tools; a rollout is judged by what it changed.

The trajectory's calls and the row's gold calls are each replayed on an office of its own, and the
effects compared. So the way does not matter, nor what was only read, and a stored rollout can be
judged again.
"""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import orjson
from pydantic import Field, PrivateAttr, ValidationError, field_validator

from palestra.errors import RowError
from palestra.resources_servers.arguments import json_object
from palestra.resources_servers.workplace_assistant.analytics import AnalyticsTools
from palestra.resources_servers.workplace_assistant.crm import CustomerTools
from palestra.resources_servers.workplace_assistant.desk import Output
from palestra.resources_servers.workplace_assistant.mail import MailTools
from palestra.resources_servers.workplace_assistant.meetings import CalendarTools
from palestra.resources_servers.workplace_assistant.projects import ProjectTools
from palestra.resources_servers.workplace_assistant.records import Effects, Office
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    called,
    response_of,
)
from palestra.server import (
    ResourcesServer,
    ResourcesServerConfig,
    ReverifyMode,
    Session,
    arguments_model,
)

RECORDS = Path(__file__).with_name("data") / "office.json"
_CHANGES = re.compile(r"_(create|update|delete|send|forward|reply|add)_")

_MADE = re.compile(r"\S*\d\S*")
"""An id, or a path: one word with digits."""

_ECHOED = re.compile(r"\S+@\S+|'[^']*'|\"[^\"]*\"")
"""What a sentence repeats of the call."""

_REFUSES = re.compile(
    r"\b(?:no|not|none|never|nothing|cannot|\w+n['\u2019]t|unable|fail\w*|invalid|missing|must"
    r"|required|denied|refus\w*|reject\w*|unknown|unsupported|unsuccessful\w*|error|exception"
    r"|already exists)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """The recorded output of one call."""

    answer: object
    """As a tool of this office would have answered: `{"output": ...}`."""
    is_refused: bool


def read_output(text: str) -> RecordedOutput:
    """Read an output; never raises.

    Whether it was refused is told by its shape wherever that tells: an object with an `error` is a
    refusal; a record, an id, a path is what was made. A plain sentence is read, those of other
    offices as well.
    """
    try:
        held = orjson.loads(text)
    except ValueError:
        held = text
    if isinstance(held, dict) and "output" not in held and held.keys() & {"error", "detail"}:
        return RecordedOutput(held, is_refused=True)
    answer = held if isinstance(held, dict) and "output" in held else {"output": held}
    return RecordedOutput(answer, _is_refusal(answer["output"]))


def _is_refusal(said: object) -> bool:
    if not isinstance(said, str) or _MADE.fullmatch(said.strip()):
        return False
    return _REFUSES.search(_ECHOED.sub(" ", said)) is not None


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

    repeatable: ClassVar[bool | None] = True

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

    def gold_response(self, row: JsonObject) -> Response | None:
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
        outputs: dict[str, list[str]] = {}
        for item in response.output:
            if isinstance(item, FunctionCallOutput):
                outputs.setdefault(item.call_id, []).append(str(item.output))
        session = Session("done")
        for item in response.output:
            if isinstance(item, FunctionCall) and outputs.get(item.call_id):
                arguments = json_object(item.arguments)
                recorded = read_output(outputs[item.call_id].pop(0))
                if arguments is not None:
                    await self._again(session, item.name, arguments, recorded)
        return self.at(session).effects()

    async def _again(
        self,
        session: Session,
        name: str,
        arguments: JsonObject,
        recorded: RecordedOutput,
    ) -> None:
        """Make a call again that was answered so when it was made.

        One that is answered in the same way does what it did: refused then, it is refused again
        and changes nothing. Where the answers differ, the call was made over other records: what
        was recorded is believed.
        """
        before = self.at(session).copy()
        self.take_on_trust(session, on=False)
        answer = await self._replayed(session, name, arguments)
        if answer in (None, recorded.answer):
            return
        self.put_back(session, before)
        if not recorded.is_refused:
            self.take_on_trust(session, on=True)
            await self._replayed(session, name, arguments)

    async def _asked(self, gold: list[GoldCall]) -> Effects:
        session = Session("asked")
        self.take_on_trust(session, on=True)
        for number, call in enumerate(gold):
            arguments = json_object(call.arguments) or {}
            if await self._replayed(session, call.name, arguments) is None:
                raise RowError(
                    f"ground_truth[{number}]: {call.name} cannot be called with {call.arguments}"
                )
        return self.at(session).effects()

    async def _replayed(self, session: Session, name: str, arguments: JsonObject) -> Output | None:
        """What a call is answered that could change anything; None where there is no such call."""
        method = self._tool_methods.get(name)
        if method is None:
            return None
        model = arguments_model(method)
        try:
            given = model.model_validate(dict(arguments))
        except ValidationError:
            return None
        if not _CHANGES.search(name):
            return {}
        answer: Output = await method(
            session=session, **{key: getattr(given, key) for key in model.model_fields}
        )
        return answer


def _count(effects: Effects) -> int:
    return len(effects.edits) + effects.born.total() + effects.plots.total()
