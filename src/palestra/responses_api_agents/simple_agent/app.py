"""`SimpleAgent`: call the model, run the tools it asked for, repeat until it answers.

One turn is one model call and the function calls in its answer. The loop ends when a turn

- is incomplete (`incomplete_details`: the model hit its token limit or was filtered),
- holds no function call, whether or not it holds a message, or
- is the last one that `max_steps` allows; its calls are not run.

What a model wrote wrongly (arguments that are no JSON object, a tool that does not exist, a
tool that raised) goes back to it as the tool's output and never ends the rollout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import orjson
from pydantic import Field

from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    JsonObject,
    Message,
    OutputItem,
    Response,
    ResponseCreateParams,
    Usage,
    add_usage,
    changed,
    encode_json,
    maker,
)
from palestra.server import BoundAgent, BoundAgentConfig
from palestra.transport import Peer

_make_output = maker(FunctionCallOutput)

CallTool = Callable[[str, JsonObject], Awaitable[str]]
"""Run a tool by name with its arguments: what the model reads of it, errors of the tool included.
Raises `CallError` when there is no answer."""


class SimpleAgentConfig(BoundAgentConfig):
    """Settings of the simple agent."""

    max_steps: int | None = Field(default=None, ge=1)
    """Most model calls of one rollout; None leaves it to the model and its context."""

    independent_tool_calls: bool = False
    """Run the function calls of one turn concurrently: only for an environment whose tools do
    not depend on each other's order. Outputs keep the order of the calls either way."""


class SimpleAgent(BoundAgent):
    """The loop above; see the module's docstring for when it ends."""

    config: SimpleAgentConfig

    def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Coroutine[Any, Any, Response]:
        """The last turn's response, with the items of all turns and their summed usage.

        Raises `CallError` when the model or the environment gave no answer.
        """
        return self.play(params, model, environment.call_tool)

    async def play(
        self, params: ResponseCreateParams, model: Peer, call_tool: CallTool
    ) -> Response:
        """The loop, with the tools behind `call_tool`. Raises as `respond`."""
        request = params
        trajectory: list[OutputItem] = []
        usage: Usage | None = None
        turns = 0
        while True:
            turn = await model.call("/v1/responses", request, Response)
            turns += 1
            usage = add_usage(usage, turn.usage)
            trajectory.extend(turn.output)
            calls = [item for item in turn.output if isinstance(item, FunctionCall)]
            if not calls or turn.incomplete_details is not None or turns == self.config.max_steps:
                break
            trajectory.extend(await self._run_tools(calls, call_tool))
            request = changed(params, {"input": [*_as_items(params.input), *trajectory]})
        if turns == 1:
            return turn
        return changed(turn, {"output": trajectory, "usage": usage})

    async def _run_tools(
        self, calls: list[FunctionCall], call_tool: CallTool
    ) -> list[FunctionCallOutput]:
        if len(calls) == 1 or not self.config.independent_tool_calls:
            return [await _run_tool(call, call_tool) for call in calls]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_run_tool(call, call_tool)) for call in calls]
        except ExceptionGroup as failures:
            # The first failure cancelled the others; it is the one that has a cause to report.
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]


def _as_items(prompt: str | list[InputItem]) -> list[InputItem]:
    if isinstance(prompt, str):
        return [Message(role="user", content=prompt, type="message")]
    return prompt


async def _run_tool(call: FunctionCall, call_tool: CallTool) -> FunctionCallOutput:
    try:
        arguments = orjson.loads(call.arguments)
    except orjson.JSONDecodeError as error:
        return _output(call, _error(f"the arguments of {call.name} are not JSON: {error}"))
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        return _output(
            call, _error(f"the arguments of {call.name} must be a JSON object, not {kind}")
        )
    return _output(call, await call_tool(call.name, arguments))


def _output(call: FunctionCall, text: str) -> FunctionCallOutput:
    # The type is said, not left to its default: defaults are not sent.
    return _make_output({"call_id": call.call_id, "output": text, "type": "function_call_output"})


def _error(message: str) -> str:
    return encode_json({"error": message}).decode()
