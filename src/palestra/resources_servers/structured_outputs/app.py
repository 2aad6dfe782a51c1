"""`StructuredOutputsServer`: is the document that a model wrote valid by its row's schema?

`documents.py` reads the notations, `schemas.py` validates; `grading.py` does both in a worker
process, which is killed at a limit. A document that takes too long or too much memory, or crashes
its reader, is worth nothing; a schema that is none is the row's fault.
"""

from functools import cached_property, partial
from typing import Any, ClassVar, Final

from fastapi import FastAPI
from pydantic import Field, JsonValue

from palestra.errors import RowError
from palestra.profiling import compute_pass_majority_metrics
from palestra.resources_servers.key_metrics import key_metrics
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.resources_servers.structured_outputs.calls import only_call
from palestra.resources_servers.structured_outputs.documents import Notation
from palestra.resources_servers.structured_outputs.grading import BAD_SCHEMA, VALID, WRONG
from palestra.resources_servers.structured_outputs.no_document import NoDocument
from palestra.resources_servers.structured_outputs.prompt_schema import schema_in_prompt
from palestra.sandbox import Workers, open_workers
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.serving import Aside, ResourcesServer, ResourcesServerConfig

LIMIT_S: Final = 2.0
"""Of a core, for one document."""

_GRADING: Final = "palestra.resources_servers.structured_outputs.grading"


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
        stated = await self._aside.run(partial(schema_in_prompt, prompt))
        if stated is None:
            raise RowError("schema_str: the row has none, and its prompt states none")
        return stated

    async def _graded(self, body: StructuredOutputsVerifyRequest, schema: JsonValue) -> list[str]:
        alone = Call(f"{_GRADING}:grade_document", (schema, "json", "null"))
        if body.response_mode == "tool_call":
            given = only_call(body.response.output, body.tool_name).arguments
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

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k and its averages; in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        """Average and best of as many attempts as there are."""
        return key_metrics(agent_metrics)

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
