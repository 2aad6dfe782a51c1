"""The tool call that is the answer, where a row asks for one instead of a text."""

from collections.abc import Iterable

from palestra.resources_servers.structured_outputs.no_document import NoDocument
from palestra.schema import FunctionCall


def only_call(output: Iterable[object], tool_name: str | None) -> FunctionCall:
    """The only call. Raises NoDocument where there is none, more than one, or one of another tool."""
    calls = [item for item in output if isinstance(item, FunctionCall)]
    if len(calls) != 1:
        raise NoDocument(f"{len(calls)} tool calls, where one is wanted")
    call = calls[0]
    if tool_name is not None and call.name != tool_name:
        raise NoDocument(f"the tool called is {call.name[:100]!r}, not {tool_name!r}")
    return call
