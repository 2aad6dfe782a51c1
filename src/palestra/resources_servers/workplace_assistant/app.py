"""`WorkplaceServer`: an office with 27 tools; a rollout is verified by the changes it made.

The calls of the trajectory and the gold calls of the row are each replayed on a separate office,
and their effects are compared. So the order of steps and read-only calls do not count, and a stored
rollout can be verified again.
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
"""Matches an id or a path: one word with digits."""

_ECHOED = re.compile(r"\S+@\S+|'[^']*'|\"[^\"]*\"")
"""Matches the parts of a sentence that repeat the call's arguments."""

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
    """The output in the form of this office's tools: `{"output": ...}`."""
    is_refused: bool


def read_output(text: str) -> RecordedOutput:
    """Read a recorded output. Never raises.

    The form of the output shows whether the call was refused where possible: an object with an
    `error` is a refusal; a record, an id or a path is a result. A plain sentence is searched for
    words of refusal, also in the wording of other offices.
    """
    try:
        decoded = orjson.loads(text)
    except ValueError:
        decoded = text
    if (
        isinstance(decoded, dict)
        and "output" not in decoded
        and decoded.keys() & {"error", "detail"}
    ):
        return RecordedOutput(decoded, is_refused=True)
    answer = decoded if isinstance(decoded, dict) and "output" in decoded else {"output": decoded}
    return RecordedOutput(answer, _is_refusal(answer["output"]))


def _is_refusal(message: object) -> bool:
    if not isinstance(message, str) or _MADE.fullmatch(message.strip()):
        return False
    return _REFUSES.search(_ECHOED.sub(" ", message)) is not None


class GoldCall(WireModel):
    """One of the calls that solve the task."""

    name: str
    arguments: str
    """The arguments as a model writes them: a JSON object."""

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        text = value if isinstance(value, str) else None
        if text is None or json_object(text) is None:
            raise ValueError("not the text of a JSON object")
        return text


class WorkplaceVerifyRequest(VerifyRequest):
    """The fields that a row needs for its rollout to be verified."""

    ground_truth: list[GoldCall]
    """The calls that solve the task; empty when nothing must be changed."""


class WorkplaceServerConfig(ResourcesServerConfig):
    """The settings of this environment."""

    records: Path = Field(default=RECORDS)
    """The file of the office's records, written by `make_office.py`."""


class WorkplaceServer(
    MailTools, CalendarTools, ProjectTools, CustomerTools, AnalyticsTools, ResourcesServer
):
    """A resources server with one office per session."""

    repeatable: ClassVar[bool | None] = True

    config: WorkplaceServerConfig
    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    _office: Office | None = PrivateAttr(default=None)

    async def start(self) -> None:
        """Read the office's records before the first request."""
        self._office = await asyncio.to_thread(Office.load, self.config.records)

    def office(self) -> Office:
        """Return the office's original records."""
        if self._office is None:
            self._office = Office.load(self.config.records)
        return self._office

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the gold calls; None where no change is expected, because most answers are right
        then.
        """
        gold = enumerate(row["ground_truth"])
        calls = [called(call["name"], call["arguments"], f"call_{number}") for number, call in gold]
        return response_of(*calls) if calls else None

    async def verify(self, body: WorkplaceVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the rollout made exactly the changes of the gold calls; else 0.0."""
        effects = await self._effects_of(body.response)
        expected_effects = await self._expected_effects(body.ground_truth)
        return self.reply(
            body,
            float(effects == expected_effects),
            changes_made=_count(effects),
            changes_expected=_count(expected_effects),
        )

    async def _effects_of(self, response: Response) -> Effects:
        """Return the changes that the calls of a trajectory made. A call without an output was
        never run.
        """
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
                    await self._replay(session, item.name, arguments, recorded)
        return self.at(session).effects()

    async def _replay(
        self,
        session: Session,
        name: str,
        arguments: JsonObject,
        recorded: RecordedOutput,
    ) -> None:
        """Replay a call whose output is recorded.

        If the replay gives the recorded output, it did the same as the original call: a refused
        call is refused again and changes nothing. If the outputs differ, the original call ran on
        other records, and the recorded output counts.
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

    async def _expected_effects(self, gold: list[GoldCall]) -> Effects:
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
        """Run a call and return its output; None when it names no tool or has invalid arguments.

        A call that changes nothing is not run; its output is empty.
        """
        method = self._tool_methods.get(name)
        if method is None:
            return None
        model = arguments_model(method)
        try:
            validated = model.model_validate(dict(arguments))
        except ValidationError:
            return None
        if not _CHANGES.search(name):
            return {}
        answer: Output = await method(
            session=session, **{key: getattr(validated, key) for key in model.model_fields}
        )
        return answer


def _count(effects: Effects) -> int:
    return len(effects.edits) + effects.born.total() + effects.plots.total()
