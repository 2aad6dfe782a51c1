"""Making a stored rollout's session again: its tool calls, run in a freshly seeded one.

Only calls that the environment once answered are run: those of a last turn that was cut off, or
that went beyond the agent's steps, never were. What the tools answer now is not compared with
what they answered then; the model acted on the latter, the session holds the former.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from palestra.schema import JsonObject
from palestra.transport import Peer

_MCP = "mcp__"


async def replay_tools(peer: Peer, output: Any) -> None:
    """Run a trajectory's tool calls, one after the other. Raises `CallError` as a call does."""
    for name, arguments in answered_calls(output):
        await peer.call_tool(name, arguments)


def answered_calls(output: Any) -> Iterator[tuple[str, JsonObject]]:
    """Name and arguments of each call that reached the environment, in their order."""
    held = output if isinstance(output, list) else []
    items = [item for item in held if isinstance(item, Mapping)]
    answered = {item.get("call_id") for item in items if item.get("type") == "function_call_output"}
    for item in items:
        if item.get("type") != "function_call" or item.get("call_id") not in answered:
            continue
        arguments = _decoded(item.get("arguments"))
        # What is no object was refused by the agent and never sent.
        if isinstance(arguments, dict):
            yield _plain_name(str(item.get("name"))), arguments


def _plain_name(name: str) -> str:
    """`get_weather`, also where it was called as `mcp__weather__get_weather`."""
    return name.split("__", 2)[-1] if name.startswith(_MCP) else name


def _decoded(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return None
