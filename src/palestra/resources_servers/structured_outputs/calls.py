"""The value that a model hands to a tool, where a row asks for a call instead of a text."""

from collections.abc import Iterable

from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.documents import read_json
from palestra.resources_servers.structured_outputs.no_document import NoDocument
from palestra.schema import FunctionCall


def payload(output: Iterable[object], tool_name: str | None, key: str | None) -> JsonValue:
    """The arguments of the only call, or with `key` what the only argument of that name holds.

    Raises NoDocument where there is no such call, more than one, or one of another tool.
    """
    calls = [item for item in output if isinstance(item, FunctionCall)]
    if len(calls) != 1:
        raise NoDocument(f"{len(calls)} tool calls, where one is wanted")
    call = calls[0]
    if tool_name is not None and call.name != tool_name:
        raise NoDocument(f"the tool called is {call.name[:100]!r}, not {tool_name!r}")
    arguments = read_json(call.arguments)
    if key is None:
        return arguments
    if not isinstance(arguments, dict) or arguments.keys() != {key}:
        raise NoDocument(f"the arguments are not {key!r} alone")
    return arguments[key]
