r"""Tool calls as text, written and read: `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`.

llama.cpp has a parser of its own for this, which is not used: it answers 500 to a model that
writes the text a little wrong, and to a history in which it once did. Pure functions.
"""

import re
from typing import Any, NamedTuple

import orjson

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Call(NamedTuple):
    """One call; `arguments` is JSON text."""

    name: str
    arguments: str


def write_call(call: Call) -> str:
    """The call as the model itself would have written it."""
    name = orjson.dumps(call.name).decode()
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments or "{}"}}}\n</tool_call>'


def read_calls(text: str) -> tuple[str, list[Call]]:
    """The text outside of the calls, and the calls in order.

    What is no call stays text, word for word: a tag that never closes because the token limit
    cut it, JSON that does not parse, an object without a name.
    """
    calls: list[Call] = []

    def take(match: re.Match[str]) -> str:
        found = read_bare_calls(match[1])
        calls.extend(found)
        return "" if found else match[0]

    rest = _CALL.sub(take, text)
    return (rest.strip() if calls else text), calls


def read_bare_calls(text: str) -> list[Call]:
    """The calls in a JSON object, or in a list of them; none when it is anything else."""
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    entries = decoded if isinstance(decoded, list) else [decoded]
    calls = [call for entry in entries if (call := _call(entry)) is not None]
    return calls if len(calls) == len(entries) else []


def _call(entry: Any) -> Call | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
        return None
    arguments = entry.get("arguments", {})
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return Call(entry["name"], text)
