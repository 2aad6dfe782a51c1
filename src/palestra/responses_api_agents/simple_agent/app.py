"""`SimpleAgent`: call the model, run the tools that it calls, and repeat until a turn has no call.

One turn is one model call plus the function calls in its answer. The loop ends when a turn

- is incomplete (`incomplete_details`: the model hit its token limit or was filtered),
- contains no function call, with or without a message, or
- is the last turn that `max_steps` allows; its calls are not run.

Errors in the model's calls (arguments that are not a JSON object, an unknown tool, a tool that
raised) are sent back to the model as the tool's output. They never end the rollout.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import Field, PrivateAttr

from palestra.errors import DeadlineExceeded, KnownCause
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

logger: Final = logging.getLogger("palestra.server")
MANY_TURNS: Final = 100
"""So many model calls in one rollout without a limit are worth a warning."""
_SET_A_LIMIT: Final = "set max_turns of the environment, or max_steps of the agent"
_make_output = maker(FunctionCallOutput)
_make_message = maker(Message)

CallTool = Callable[[str, JsonObject], Awaitable[str]]
"""A function that runs a tool by name with its arguments and returns the text for the model.

The text includes the tool's errors. Raises `CallError`: there is no answer.
"""

AskModel = Callable[[ResponseCreateParams], Awaitable[Response]]
"""A function that returns the model's answer to a request."""

Reply = Callable[[Response], Awaitable[str | None]]
"""A function that returns what the user says to a turn of the model; None ends the conversation."""


class SimpleAgentConfig(BoundAgentConfig):
    """The settings of `SimpleAgent`."""

    max_steps: int | None = Field(default=None, ge=1)
    """The maximum number of model calls in one rollout; None: no limit besides the model's context.
    """

    independent_tool_calls: bool = False
    """Whether to run the function calls of one turn concurrently. Only for environments whose tools
    may run in any order. The outputs keep the order of the calls in both cases."""


class SimpleAgent(BoundAgent):
    """An agent that runs the plain tool-calling loop; the module's docstring says when the loop
    ends.
    """

    config: SimpleAgentConfig
    _has_warned: bool = PrivateAttr(default=False)

    def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Coroutine[Any, Any, Response]:
        """Return the last turn's response, with the items of all turns and their summed usage.

        Raises `CallError`: the model or the environment gave no answer.
        """
        return self.play(params, model, environment.call_tool)

    async def play(
        self,
        params: ResponseCreateParams,
        model: Peer,
        call_tool: CallTool,
        *,
        reply: Reply | None = None,
        max_turns: int | None = None,
    ) -> Response:
        """Run the loop; `call_tool` runs the tools. Raises the same errors as `respond`.

        `reply`: answers a turn without calls; the loop goes on with its answer. `max_turns`: the
        limit of the environment, beside `max_steps`.
        """
        limits = [limit for limit in (self.config.max_steps, max_turns) if limit is not None]
        return await play_turns(
            params,
            lambda request: model.call("/v1/responses", request, Response),
            call_tool,
            reply=reply,
            max_turns=min(limits, default=None),
            independent_tool_calls=self.config.independent_tool_calls,
            on_many_turns=self._warn,
        )

    def _warn(self) -> None:
        """Warn once of a rollout that may never end."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s: a rollout has called the model %d times, and nothing limits it: %s",
                self.name,
                MANY_TURNS,
                _SET_A_LIMIT,
            )


async def play_turns(
    params: ResponseCreateParams,
    ask_model: AskModel,
    call_tool: CallTool,
    *,
    reply: Reply | None = None,
    max_turns: int | None = None,
    independent_tool_calls: bool = False,
    on_many_turns: Callable[[], object] | None = None,
) -> Response:
    """Run the loop, and return the last turn's response with the items and the usage of all turns.

    `on_many_turns`: is called after `MANY_TURNS` model calls where there is no `max_turns`. Raises what the functions raise. A deadline that passes in a loop of quick turns is an error with
    the number of turns, and not of the call that happened to be awaited.
    """
    pace = _Pace(on_many_turns=on_many_turns if max_turns is None else None)
    try:
        return await _turns(
            params, ask_model, call_tool, reply, max_turns, independent_tool_calls, pace
        )
    except DeadlineExceeded as late:
        if pace.is_of_many_turns():
            raise pace.deadline_passed(late, max_turns) from late
        raise


@dataclass(slots=True)
class _Pace:
    """How far a loop is, and since when. Times are those of the monotonic clock, in seconds."""

    turns: int = 0
    tool_calls: int = 0
    began_s: float = field(default_factory=time.monotonic)
    turn_began_s: float = field(default_factory=time.monotonic)
    longest_turn_s: float = 0.0
    on_many_turns: Callable[[], object] | None = None

    def end_call(self) -> None:
        """Note that the model has answered."""
        self.turns += 1
        if self.turns == MANY_TURNS and self.on_many_turns is not None:
            self.on_many_turns()

    def begin_turn(self) -> None:
        """Note that the turn before has ended."""
        now = time.monotonic()
        self.longest_turn_s = max(self.longest_turn_s, now - self.turn_began_s)
        self.turn_began_s = now

    def is_of_many_turns(self) -> bool:
        """Whether the time went to several turns, and not to one turn with a slow call."""
        now = time.monotonic()
        longest_turn_s = max(self.longest_turn_s, now - self.turn_began_s)
        return self.turns > 1 and longest_turn_s < (now - self.began_s) / 2

    def deadline_passed(self, late: DeadlineExceeded, max_turns: int | None) -> DeadlineExceeded:
        """Return the error for the rollout. `late`: the error of the call that was awaited."""
        return DeadlineExceeded(
            f"{self.turns} model calls and {self.tool_calls} tool calls were made in "
            f"{time.monotonic() - self.began_s:.0f} s; the rollout was still going at its deadline",
            hint=f"{_SET_A_LIMIT if max_turns is None else 'lower max_turns'}, or raise rollout_timeout",
            evidence=late.evidence,
            cause=KnownCause.STILL_GOING,
        )


async def _turns(
    params: ResponseCreateParams,
    ask_model: AskModel,
    call_tool: CallTool,
    reply: Reply | None,
    max_turns: int | None,
    independent_tool_calls: bool,
    pace: _Pace,
) -> Response:
    request = params
    trajectory: list[OutputItem] = []
    usage: Usage | None = None
    while True:
        pace.begin_turn()
        turn = await ask_model(request)
        pace.end_call()
        usage = add_usage(usage, turn.usage)
        trajectory.extend(turn.output)
        calls = [item for item in turn.output if isinstance(item, FunctionCall)]
        if turn.incomplete_details is not None or (calls and pace.turns == max_turns):
            break
        if calls:
            trajectory.extend(await _run_tools(calls, call_tool, independent_tool_calls))
            pace.tool_calls += len(calls)
        else:
            observation = None if reply is None else await reply(turn)
            if observation is None or pace.turns == max_turns:
                break
            trajectory.append(
                _make_message({"role": "user", "content": observation, "type": "message"})
            )
        request = changed(params, {"input": [*_as_items(params.input), *trajectory]})
    if pace.turns == 1:
        return turn
    return changed(turn, {"output": trajectory, "usage": usage})


async def _run_tools(
    calls: list[FunctionCall], call_tool: CallTool, independent: bool
) -> list[FunctionCallOutput]:
    if len(calls) == 1 or not independent:
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
