"""`StructuredOutputsServer`: is the document that a model wrote valid by its row's schema?

`documents.py` reads the notations; `grading.py` validates what was read, in a worker
process, which is killed at a limit. A document that takes too long or too much memory, or crashes
its reader, is worth nothing; a schema that is none is the row's fault.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import ClassVar, Final

from fastapi import FastAPI
from pydantic import Field, JsonValue

from palestra.errors import RowError
from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.resources_servers.structured_outputs.documents import Notation
from palestra.resources_servers.structured_outputs.grading import BAD_SCHEMA, VALID, WRONG
from palestra.resources_servers.structured_outputs.shapes import NoDocument
from palestra.sandbox import Workers, open_workers
from palestra.schema import (
    FunctionCall,
    Message,
    ResponseCreateParams,
    VerifyRequest,
    VerifyResponse,
)
from palestra.server import Aside, ResourcesServerConfig

LIMIT_S: Final = 2.0
"""Of a core, for one document."""

_GRADING: Final = "palestra.resources_servers.structured_outputs.grading"

_SCHEMA: Final = re.compile("schema", re.IGNORECASE)
_MOST_TRIES: Final = 50
_KEYWORDS: Final = frozenset({"$ref", "anyOf", "allOf", "oneOf", "properties", "items"})


class StructuredOutputsVerifyRequest(VerifyRequest):
    """A row: the schema, and in which form the answer comes."""

    schema_str: str | dict[str, JsonValue] | None = None
    """The JSON schema, as JSON text or as an object; without it, the one that the prompt states."""

    schema_type: Notation = "json"
    """The notation of the answer."""

    response_mode: str | None = None
    """`tool_call`: the arguments of a tool call are the answer; else the text of the last message."""

    tool_name: str | None = Field(default=None, min_length=1)
    """The tool to be called; without it any."""

    tool_payload_key: str | None = None
    """The only argument, which holds the answer; without it the answer is all the arguments."""


class StructuredOutputsServer(AttemptsServer):
    """Validates the text of the last message, or the arguments of a tool call."""

    repeatable: ClassVar[bool | None] = True

    config: ResourcesServerConfig

    async def verify(self, body: StructuredOutputsVerifyRequest) -> VerifyResponse:
        """1.0 for a document that is valid; else 0.0, and what is wrong with it."""
        schema = await self._schema_of(body)
        try:
            verdict, message = await self._graded(body, schema)
        except NoDocument as error:
            verdict, message = WRONG, error.message
        except Stopped as stopped:
            verdict, message = WRONG, stopped.why
        if verdict == BAD_SCHEMA:
            raise RowError(f"schema_str: {message}")
        valid = verdict == VALID
        return self.reply(body, float(valid), schema_problem=None if valid else message)

    async def _schema_of(self, body: StructuredOutputsVerifyRequest) -> JsonValue:
        if body.schema_str is not None:
            return body.schema_str
        prompt = body.responses_create_params
        stated = await self._aside.run(partial(_schema_in_prompt, prompt))
        if stated is None:
            raise RowError("schema_str: the row has none, and its prompt states none")
        return stated

    async def _graded(self, body: StructuredOutputsVerifyRequest, schema: JsonValue) -> list[str]:
        alone = Call(f"{_GRADING}:grade_document", (schema, "json", "null"))
        if body.response_mode == "tool_call":
            given = _only_call(body.response.output, body.tool_name).arguments
            call = Call(f"{_GRADING}:grade_arguments", (schema, given, body.tool_payload_key))
        else:
            text = body.response.final_text
            call = Call(f"{_GRADING}:grade_document", (schema, body.schema_type, text))
        verdict: list[str] = await value_of(
            self._workers, call, alone=alone, field="schema_str", limit_s=LIMIT_S
        )
        return verdict

    async def stop(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    def setup_webserver(self) -> FastAPI:
        """The app, in which every tool of every row exists and says that it has been called."""
        app = super().setup_webserver()
        app.add_api_route("/{tool_name}", _received, methods=["POST"])
        return app

    @cached_property
    def _aside(self) -> Aside:
        return Aside()

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=[_GRADING])


async def _received(tool_name: str) -> dict[str, str]:
    """What a tool answers: nothing on whether its arguments are right."""
    del tool_name
    return {"status": "received"}


def _only_call(output: Iterable[object], tool_name: str | None) -> FunctionCall:
    """The only call. Raises NoDocument where there is none, more than one, or one of another tool."""
    calls = [item for item in output if isinstance(item, FunctionCall)]
    if len(calls) != 1:
        raise NoDocument(f"{len(calls)} tool calls, where one is wanted")
    call = calls[0]
    if tool_name is not None and call.name != tool_name:
        raise NoDocument(f"the tool called is {call.name[:100]!r}, not {tool_name!r}")
    return call


def _schema_in_prompt(params: ResponseCreateParams) -> dict[str, JsonValue] | None:
    """The last schema that follows the word in one of the messages; None when there is none.

    Rollouts recorded by early versions keep no field of their rows but the prompt, whose text ends
    with the schema, or with its properties alone.

    Properties that stand alone are those of an object that needs all of them and takes no other.
    """
    for text in reversed(list(_texts(params))):
        for start in _starts(text):
            found = _object_at(text, start)
            if found is not None and _is_schema(found):
                return found
            if found and all(
                isinstance(each, dict) and _is_schema(each) for each in found.values()
            ):
                names: list[JsonValue] = list(found)
                return {
                    "type": "object",
                    "properties": found,
                    "required": names,
                    "additionalProperties": False,
                }
    return None


def _texts(params: ResponseCreateParams) -> Iterator[str]:
    if isinstance(params.input, str):
        yield params.input
        return
    for item in params.input:
        if isinstance(item, Message):
            yield item.text


def _starts(text: str) -> list[int]:
    """Where an object may start that the word announces, the last first."""
    places = (text.find("{", match.end()) for match in _SCHEMA.finditer(text))
    return sorted({place for place in places if place >= 0}, reverse=True)[:_MOST_TRIES]


def _object_at(text: str, start: int) -> dict[str, JsonValue] | None:
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_schema(found: dict[str, JsonValue]) -> bool:
    return isinstance(found.get("type"), str | list) or not _KEYWORDS.isdisjoint(found)
