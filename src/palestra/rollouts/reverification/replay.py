"""Run the tool calls and the turns of a stored trajectory again, in a new session of an environment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from palestra.schema import JsonObject
from palestra.transport import Peer

_MCP = "mcp__"
CALL, CALL_OUTPUT = "function_call", "function_call_output"


async def replay_tools(peer: Peer, output: Any) -> bool:
    """Run a trajectory's tool calls one after another. Return whether each answers as it did.

    Raises `CallError`: a call fails.
    """
    is_same = True
    for call in answered_calls(output):
        answer = await peer.call_tool(call.name, call.arguments)
        is_same = call.is_answered_by(answer) and is_same
    return is_same


async def replay_turns(
    peer: Peer,
    response: JsonObject,
    max_turns: int | None = None,
    *,
    ended_at_limit: bool = False,
) -> bool:
    """Run a trajectory's tool calls, and send each turn without calls to `/step`, in order.

    A turn that was cut off was never sent. Return whether the environment says the same as it did:
    the same answers of tools, the same text after each turn, and the end after the last one.
    `max_turns`: the limit of today's environment. `ended_at_limit`: the conversation ended at a limit,
    which may be the agent's, so that what the user said last is not known. Raises `CallError`: a call
    fails.
    """
    from palestra.server import Step

    output = response.get("output")
    items = (
        [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []
    )
    turns = list(_turns(items))
    is_same = True
    for number, (turn, answers, heard) in enumerate(turns, start=1):
        is_last, at_limit = number == len(turns), max_turns is not None and number >= max_turns
        if not is_last and at_limit:
            is_same = False
        if any(item.get("type") == CALL for item in turn):
            is_same = await replay_tools(peer, [*turn, *answers]) and is_same
        elif not is_last or response.get("incomplete_details") is None:
            step = await peer.call("/step", {"response": {**response, "output": turn}}, Step)
            goes_on = not (step.terminated or step.truncated or at_limit)
            says = step.observation if goes_on else None
            is_known = not (is_last and ended_at_limit)
            is_same = is_same and (says == heard or not is_known)
    return is_same


def _turns(
    items: Iterable[JsonObject],
) -> Iterator[tuple[list[JsonObject], list[JsonObject], str | None]]:
    """Yield the items of each turn of the model, the answers to its calls, and what the user said after
    it: None for nothing.
    """
    turn: list[JsonObject] = []
    answers: list[JsonObject] = []
    heard: str | None = None
    is_over = False
    for item in items:
        is_user = item.get("role") == "user"
        is_answer = item.get("type") == CALL_OUTPUT
        if is_answer or is_user:
            is_over = bool(turn)
            if is_answer:
                answers.append(item)
            elif turn:
                heard = (heard or "") + _text_of(item.get("content"))
            continue
        if is_over:
            yield turn, answers, heard
            turn, answers, heard, is_over = [], [], None, False
        turn.append(item)
    if turn:
        yield turn, answers, heard


def _text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A tool call that the environment answered. `output`: the answer that the model saw.

    `through_mcp`: an MCP client made the call, and wrote the answer in its own form.
    """

    name: str
    arguments: JsonObject
    output: Any
    through_mcp: bool = False

    def is_answered_by(self, answer: str) -> bool:
        """Return whether this answer says what the model saw, as text or as JSON."""
        if self.through_mcp or not isinstance(self.output, str) or answer == self.output:
            return True
        before = _decoded(self.output)
        return isinstance(before, dict | list) and before == _decoded(answer)


def answered_calls(output: Any) -> Iterator[AnsweredCall]:
    """Yield each tool call that the environment answered, in order."""
    output_items = output if isinstance(output, list) else []
    items = [item for item in output_items if isinstance(item, Mapping)]
    answers: dict[Any, list[Any]] = {}
    for item in items:
        if item.get("type") == CALL_OUTPUT:
            answers.setdefault(item.get("call_id"), []).append(item.get("output"))
    for item in items:
        of_call = answers.get(item.get("call_id"))
        if item.get("type") != CALL or not of_call:
            continue
        # A model may use the same ids again in each turn. A call without an answer of its own is
        # replayed with the last one.
        answer = of_call.pop(0) if len(of_call) > 1 else of_call[0]
        arguments = _decoded(item.get("arguments"))
        # What is no object was refused by the agent and never sent.
        if isinstance(arguments, dict):
            name, through_mcp = _plain_name(str(item.get("name")))
            yield AnsweredCall(name, arguments, answer, through_mcp)


def _plain_name(name: str) -> tuple[str, bool]:
    """Return the tool's own name, which is `get_weather` for `mcp__weather__get_weather` too, and
    whether it is the name of an MCP client.
    """
    return (name.split("__", 2)[-1], True) if name.startswith(_MCP) else (name, False)


def _decoded(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return None
