"""Check one tool: its name, its shape, and its schema by rules and by the grammar compilers.

A problem is an error when no server accepts the tool, or when the schema means something other than
its author intended. A schema that vLLM's default compiler rejects and another compiler accepts is a
warning: vLLM may use the other one, or respond with status 400 when its backend is fixed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from palestra.causes import Severity
from palestra.doctor.grammars import OUTLINES, Compile
from palestra.doctor.schema_rules import NOT_A_SCHEMA, REF, BrokenRule, broken_rules, nodes_of
from palestra.schema import TOOL_NAME_RULE, JsonObject, is_tool_name

NAME: Final = "data.tool-name"
SHAPE: Final = "data.tool-shape"
GRAMMAR: Final = "data.tool-grammar"
FALLBACK: Final = "data.tool-grammar-fallback"


def digest_of(tool: Any) -> bytes:
    """Return a key for a tool. Tools that differ only in their description have the same key."""
    if isinstance(tool, dict):
        tool = {name: value for name, value in tool.items() if name != "description"}
    return orjson.dumps(tool)


def name_of(tool: Any) -> str:
    """Return the tool's name; `?` when it has none."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    function = inner if isinstance(inner, dict) else tool
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) and name else "?"


def broken_tool(tool: Any, compilers: Mapping[str, Compile]) -> Iterator[BrokenRule]:
    """Yield all problems of one tool, with pointers within the tool."""
    if not isinstance(tool, dict):
        yield BrokenRule(SHAPE, "", f"a tool should be an object, and is {type(tool).__name__}")
        return
    if tool.get("type", "function") != "function":
        return  # a tool of the provider's own: it has no schema
    inner = tool.get("function")
    function, at = (inner, "/function") if isinstance(inner, dict) else (tool, "")
    name = function.get("name")
    if not isinstance(name, str) or not is_tool_name(name):
        yield BrokenRule(NAME, f"{at}/name", f"the name is {name!r}: {TOOL_NAME_RULE}")
    parameters = function.get("parameters")
    at += "/parameters"
    if parameters is None:
        return  # it takes none
    if not isinstance(parameters, dict):
        kind = type(parameters).__name__
        yield BrokenRule(
            SHAPE, at, f"parameters should be an object, and is {kind}: {parameters!r}"
        )
        return
    rules = list(broken_rules(parameters, strict=function.get("strict") is True))
    for broken in (*rules, *_compiled(rules, parameters, compilers)):
        yield BrokenRule(broken.cause, at + broken.pointer, broken.message, broken.severity)


def _compiled(
    rules: Sequence[BrokenRule], parameters: JsonObject, compilers: Mapping[str, Compile]
) -> Iterator[BrokenRule]:
    """Yield the compilers' problems, unless a rule has already reported an invalid schema or
    reference.
    """
    if any(b.cause in {NOT_A_SCHEMA, REF} and b.severity is Severity.ERROR for b in rules):
        return
    refused: dict[str, str] = {}
    accepted_by = ""
    for name, compile_ in compilers.items():
        if name == OUTLINES and accepted_by:
            break  # vLLM's last resort, and a slow one
        if why := compile_(_text(parameters)):
            refused[name] = why
        else:
            accepted_by = accepted_by or name
    complaints = "; ".join(f"{name} says: {why}" for name, why in refused.items())
    first = next(iter(refused), "")
    if refused and not accepted_by:
        at = _blamed(parameters, compilers[first])
        yield BrokenRule(GRAMMAR, at, f"no grammar compiler takes it. {complaints}")
    elif refused and first == next(iter(compilers)):
        at = _blamed(parameters, compilers[first])
        yield BrokenRule(FALLBACK, at, f"{complaints}; {accepted_by} takes it", Severity.WARNING)


def _blamed(parameters: JsonObject, compile_: Compile) -> str:
    """Return the pointer of the innermost node that the compiler also rejects alone; else the
    root's.
    """
    nodes = [(at, node) for at, node in nodes_of(parameters) if isinstance(node, dict | bool)]
    for at, node in sorted(nodes, key=lambda item: -item[0].count("/")):
        text = _text(node)
        # By itself, a reference leads nowhere.
        if '"$ref"' not in text and compile_(text):
            return at
    return ""


def _text(schema: Any) -> str:
    return orjson.dumps(schema).decode()
