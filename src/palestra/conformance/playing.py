"""Verify one answer in its own session, with the same calls that an agent makes."""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

import orjson
from pydantic import ValidationError

from palestra.conformance.lag import LoopGuard
from palestra.errors import CallError, RowIdentity, VerifierError
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    FunctionCall,
    FunctionCallOutput,
    JsonDict,
    JsonObject,
    Message,
    OutputItem,
    OutputMessage,
    Response,
    ResponseCreateParams,
    VerifyResponse,
    changed,
    encode_json,
    maker,
)
from palestra.server import Opening, Step
from palestra.transport import CallContext, Peer, ServerClient, calling

MOST_TURNS: Final = 1000
_make_output = maker(FunctionCallOutput)
_make_message = maker(Message)


@dataclass(frozen=True, slots=True)
class PlayedAnswer:
    """The verdict on one answer. `failure` is set when an error left it without a reward."""

    reward: float | None
    seconds: float
    """How long `verify` alone took, in seconds. With a failure or a timeout: the whole time."""
    blocked_s: float
    """The longest block of the event loop, in seconds."""
    failure: CallError | None = None
    timed_out: bool = False
    limit_s: float = math.inf
    """The time limit of an answer that timed out, in seconds."""
    touched: bool = False
    """Whether the verifier changed the task row."""
    reported: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentInterface:
    """The interface of an environment's server: its tools, and whether it takes turns."""

    name: str
    tools: frozenset[str] = frozenset()
    takes_turns: bool = False
    schemas: Mapping[str, JsonObject] = field(default_factory=dict)
    """The JSON Schema of each tool's arguments; empty for a tool that publishes none."""


@final
class Player:
    """Sends answers to one environment. `timeout_s`: the time limit for one answer."""

    def __init__(
        self,
        client: ServerClient,
        door: EnvironmentInterface,
        guard: LoopGuard,
        *,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._door = door
        self._guard = guard
        self._timeout_s = timeout_s

    async def verify(
        self,
        task: JsonObject,
        response: Response,
        *,
        number: int | None = None,
        stored: bool = False,
        timeout_s: float | None = None,
    ) -> PlayedAnswer:
        """Seed a session, run the answer's calls or turns, and verify. An environment's error is
        not raised.

        `number`: the number of the example row, if it is one. `stored`: only verify, as for a
        rollout whose session no longer exists. `timeout_s`: another time limit for this answer.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        self._guard.begin()
        began = time.monotonic()
        row = None if number is None else RowIdentity(number)
        context = CallContext(row, began + limit_s)
        try:
            with calling(context):
                async with asyncio.timeout(limit_s):
                    return await self._verified(task, response, stored=stored)
        except TimeoutError:
            return PlayedAnswer(
                None,
                time.monotonic() - began,
                self._guard.longest_s(),
                timed_out=True,
                limit_s=limit_s,
            )
        except CallError as failure:
            return PlayedAnswer(
                None, time.monotonic() - began, self._guard.longest_s(), failure=failure
            )
        except Exception as error:  # whatever it is, it was one answer that did it
            verifier_error = VerifierError(f"{type(error).__name__}: {error}")
            return PlayedAnswer(
                None, time.monotonic() - began, self._guard.longest_s(), failure=verifier_error
            )

    async def _verified(
        self, task: JsonObject, response: Response, *, stored: bool
    ) -> PlayedAnswer:
        peer = self._client.peer(self._door.name)
        row = {name: value for name, value in task.items() if name != AGENT_REF}
        before = _encoded(task)
        if self._door.takes_turns and not stored:
            row, response = await self._played(peer, row, response)
        elif not stored:
            await peer.notify("/seed_session", row)
            response = await self._with_outputs(peer, response)
        row[CREATE_PARAMS] = _parsed(row.get(CREATE_PARAMS))
        began = time.monotonic()
        body = {**row, "response": response}
        result = await peer.call("/verify", body, VerifyResponse)
        seconds = time.monotonic() - began
        return PlayedAnswer(
            result.reward,
            seconds,
            self._guard.longest_s(),
            touched=before is not None and before != _encoded(task),
            reported=result.model_extra,
        )

    async def _with_outputs(self, peer: Peer, response: Response) -> Response:
        """Return the response with the outputs of its calls. A call that already has an output is
        not repeated.
        """
        answered_ids = {i.call_id for i in response.output if isinstance(i, FunctionCallOutput)}
        output: list[OutputItem] = []
        for item in response.output:
            output.append(item)
            if not isinstance(item, FunctionCall) or item.call_id in answered_ids:
                continue
            arguments = _arguments_of(item)
            if item.name in self._door.tools and arguments is not None:
                tool_text = await peer.call_tool(item.name, arguments)
                output_item = {
                    "call_id": item.call_id,
                    "output": tool_text,
                    "type": "function_call_output",
                }
                output.append(_make_output(output_item))
        return changed(response, {"output": output})

    async def _played(
        self, peer: Peer, row: JsonDict, response: Response
    ) -> tuple[JsonDict, Response]:
        """Send each message as one turn, until the environment ends the episode. Calls before a
        message are run first.
        """
        opening = await peer.call("/reset", row, Opening)
        if opening.observation is not None:
            row = _opened(row, opening.observation)
        output: list[OutputItem] = []
        for turn in response.output[:MOST_TURNS]:
            if isinstance(turn, FunctionCall):
                called = await self._with_outputs(peer, changed(response, {"output": [turn]}))
                output += called.output
            if not isinstance(turn, OutputMessage):
                continue
            output.append(turn)
            step = await peer.call(
                "/step", {"response": changed(response, {"output": [turn]})}, Step
            )
            if step.terminated or step.truncated:
                break
            if step.observation is not None:
                output.append(_spoken(step.observation))
        return row, changed(response, {"output": output})


def _opened(row: JsonDict, observation: str) -> JsonDict:
    params = row.get(CREATE_PARAMS) or {}
    conversation = params.get("input", [])
    items = (
        [{"role": "user", "content": conversation}]
        if isinstance(conversation, str)
        else list(conversation)
    )
    items.append({"role": "user", "content": observation, "type": "message"})
    return {**row, CREATE_PARAMS: {**params, "input": items}}


def _spoken(text: str) -> Message:
    return _make_message({"role": "user", "content": text, "type": "message"})


def _parsed(params: Any) -> Any:
    try:
        return ResponseCreateParams.model_validate(params or {"input": []})
    except ValidationError:
        return params  # for the environment to refuse, in its own words


def _arguments_of(call: FunctionCall) -> JsonDict | None:
    try:
        parsed = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _encoded(task: JsonObject) -> bytes | None:
    try:
        return encode_json(task)
    except TypeError:
        return None


async def door_of(client: ServerClient, name: str) -> EnvironmentInterface:
    """Return the interface that the server publishes: its tools, and whether it takes turns."""
    reply = await client.get(name, "/openapi.json", stateless=True)
    document = await reply.json() if reply.ok else {}
    paths = document.get("paths", {})
    posts = {path.lstrip("/") for path, methods in paths.items() if "post" in methods}
    takes_turns = {"reset", "step"} <= posts
    own_paths = {"verify", "seed_session", "aggregate_metrics", "reset", "step"}
    tools = frozenset(posts - own_paths)
    schemas = {tool: _arguments_schema(document, tool) for tool in tools}
    return EnvironmentInterface(name, tools, takes_turns=takes_turns, schemas=schemas)


def _arguments_schema(document: JsonObject, tool: str) -> JsonObject:
    """Return the schema of a tool's arguments, with the schemas it refers to; empty when it is not
    published.
    """
    try:
        posted = document["paths"][f"/{tool}"]["post"]["requestBody"]
        schema = posted["content"]["application/json"]["schema"]
        if "$ref" in schema:  # of a route of FastAPI's own
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    except (KeyError, TypeError):
        return {}
    return {**schema, "components": document.get("components", {})}
