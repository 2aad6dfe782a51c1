"""`StructuredOutputsServer`: is the model's document valid under its row's schema?

`documents.py` parses the notations. `grading.py` validates the parsed value in a worker process,
which is killed at a limit. The reward is 0.0 for a document that takes too much time or memory, or
crashes its parser. An invalid schema is an error of the row.
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
"""The seconds for one document; waiting for a core does not count."""

_GRADING: Final = "palestra.resources_servers.structured_outputs.grading"

_SCHEMA: Final = re.compile("schema", re.IGNORECASE)
_MOST_TRIES: Final = 50
_KEYWORDS: Final = frozenset({"$ref", "anyOf", "allOf", "oneOf", "properties", "items"})


class StructuredOutputsVerifyRequest(VerifyRequest):
    """A row: the schema, and the form of the answer."""

    schema_str: str | dict[str, JsonValue] | None = None
    """The JSON schema, as JSON text or as an object. By default, the schema in the prompt."""

    schema_type: Notation = "json"
    """The notation of the answer."""

    response_mode: str | None = None
    """`tool_call`: the answer is the arguments of a tool call. Otherwise: the text of the last
    message."""

    tool_name: str | None = Field(default=None, min_length=1)
    """The tool that must be called. By default, any tool."""

    tool_payload_key: str | None = None
    """The name of the only argument, which contains the answer. By default, all arguments together
    are the answer."""


class StructuredOutputsServer(AttemptsServer):
    """A resources server that validates the text of the last message, or the arguments of a tool
    call.
    """

    repeatable: ClassVar[bool | None] = True

    config: ResourcesServerConfig

    async def verify(self, body: StructuredOutputsVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 for a valid document; else 0.0, with the error in `schema_problem`."""
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
        schema_alone = Call(f"{_GRADING}:grade_document", (schema, "json", "null"))
        if body.response_mode == "tool_call":
            arguments = _only_call(body.response.output, body.tool_name).arguments
            call = Call(f"{_GRADING}:grade_arguments", (schema, arguments, body.tool_payload_key))
        else:
            text = body.response.final_text
            call = Call(f"{_GRADING}:grade_document", (schema, body.schema_type, text))
        verdict: list[str] = await value_of(
            self._workers, call, row_call=schema_alone, field="schema_str", limit_s=LIMIT_S
        )
        return verdict

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    def setup_webserver(self) -> FastAPI:
        """Return the web app, which accepts calls of every tool name."""
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
    """Reply to a tool call. The reply does not reveal whether the arguments are right."""
    del tool_name
    return {"status": "received"}


def _only_call(output: Iterable[object], tool_name: str | None) -> FunctionCall:
    """Return the only call. Raises NoDocument: there is not exactly one call, or it calls another
    tool.
    """
    calls = [item for item in output if isinstance(item, FunctionCall)]
    if len(calls) != 1:
        raise NoDocument(f"{len(calls)} tool calls, where one is wanted")
    call = calls[0]
    if tool_name is not None and call.name != tool_name:
        raise NoDocument(f"the tool called is {call.name[:100]!r}, not {tool_name!r}")
    return call


def _schema_in_prompt(params: ResponseCreateParams) -> dict[str, JsonValue] | None:
    """Return the last schema that follows the word "schema" in a message; None when there is none.

    Rollouts recorded by early versions contain no row fields except the prompt. Its text ends with
    the schema, or with only the schema's properties. Properties alone become the schema of an
    object that requires all of them and allows no others.
    """
    for text in reversed(list(_texts(params))):
        for start in _starts(text):
            schema = _object_at(text, start)
            if schema is not None and _is_schema(schema):
                return schema
            if schema and all(
                isinstance(part, dict) and _is_schema(part) for part in schema.values()
            ):
                names: list[JsonValue] = list(schema)
                return {
                    "type": "object",
                    "properties": schema,
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
    """Return the positions after the word "schema" where an object may start, the last first."""
    starts = (text.find("{", match.end()) for match in _SCHEMA.finditer(text))
    return sorted({start for start in starts if start >= 0}, reverse=True)[:_MOST_TRIES]


def _object_at(text: str, start: int) -> dict[str, JsonValue] | None:
    try:
        decoded, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _is_schema(candidate: dict[str, JsonValue]) -> bool:
    return isinstance(candidate.get("type"), str | list) or not _KEYWORDS.isdisjoint(candidate)
