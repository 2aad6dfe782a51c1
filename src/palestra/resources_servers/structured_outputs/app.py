"""`StructuredOutputsServer`: is the document that a model wrote valid by its row's schema?

`documents.py` reads the notations, `calls.py` the tool calls, `schemas.py` validates.
"""

import asyncio
from functools import cached_property, partial
from typing import Any

from fastapi import FastAPI
from pydantic import Field, JsonValue, PrivateAttr

from palestra.errors import RowError
from palestra.profiling import compute_pass_majority_metrics, highest_k_metrics
from palestra.resources_servers.structured_outputs.calls import payload
from palestra.resources_servers.structured_outputs.documents import (
    Notation,
    check_size,
    read_document,
)
from palestra.resources_servers.structured_outputs.limited import limited_problem, read_toml
from palestra.resources_servers.structured_outputs.no_document import NoDocument
from palestra.resources_servers.structured_outputs.prompt_schema import schema_in_prompt
from palestra.resources_servers.structured_outputs.schemas import BadSchema, Schema, made_schema
from palestra.resources_servers.structured_outputs.shapes import Shape
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.serving import Aside, ResourcesServer, ResourcesServerConfig

CHILDREN_AT_ONCE = 4


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


class StructuredOutputsServer(ResourcesServer):
    """Validates the text of the last message, or the arguments of a tool call."""

    config: ResourcesServerConfig

    _children: asyncio.Semaphore = PrivateAttr(
        default_factory=lambda: asyncio.Semaphore(CHILDREN_AT_ONCE)
    )

    async def verify(self, body: StructuredOutputsVerifyRequest) -> VerifyResponse:
        """1.0 for a document that is valid; else 0.0, and what is wrong with it."""
        schema = await self._aside.run(partial(_schema_of, body))
        try:
            problem = await self._problem(body, schema)
        except NoDocument as error:
            problem = error.message
        return self.reply(body, float(problem is None), schema_problem=problem)

    async def _problem(self, body: StructuredOutputsVerifyRequest, schema: Schema) -> str | None:
        readings = await self._readings(body, schema)
        problems = [await self._problem_of(value, schema) for value in readings]
        return None if None in problems else problems[0]

    async def _readings(
        self, body: StructuredOutputsVerifyRequest, schema: Schema
    ) -> list[JsonValue]:
        if body.response_mode != "tool_call" and body.schema_type == "toml":
            async with self._children:
                return [await read_toml(body.response.final_text)]
        return await self._aside.run(partial(_read, body, schema))

    async def _problem_of(self, value: JsonValue, schema: Schema) -> str | None:
        if schema.bounded:
            return await self._aside.run(partial(schema.problem, value))
        async with self._children:
            return await limited_problem(schema.value, value)

    def setup_webserver(self) -> FastAPI:
        """The app, in which every tool of every row exists and says that it has been called."""
        app = super().setup_webserver()
        app.add_api_route("/{tool_name}", _received, methods=["POST"])
        return app

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k and its averages; in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        """Average and best of as many attempts as there are."""
        return {
            name: value
            for pattern in ("pass@1[avg-of-{k}]", "pass@{k}")
            for name, value in highest_k_metrics(agent_metrics, pattern).items()
        }

    @cached_property
    def _aside(self) -> Aside:
        return Aside()


async def _received(tool_name: str) -> dict[str, str]:
    """What a tool answers: nothing on whether its arguments are right."""
    del tool_name
    return {"status": "received"}


def _schema_of(body: StructuredOutputsVerifyRequest) -> Schema:
    given: JsonValue = body.schema_str
    if given is None:
        given = schema_in_prompt(body.responses_create_params)
    if given is None:
        raise RowError("schema_str: the row has none, and its prompt states none")
    try:
        return made_schema(given)
    except BadSchema as error:
        raise RowError(f"schema_str: {error.message}") from None


def _read(body: StructuredOutputsVerifyRequest, schema: Schema) -> list[JsonValue]:
    if body.response_mode != "tool_call":
        shape = Shape(schema.value)
        return read_document(body.response.final_text, body.schema_type, shape)
    value = payload(body.response.output, body.tool_name, body.tool_payload_key)
    check_size(value)
    return [value]
