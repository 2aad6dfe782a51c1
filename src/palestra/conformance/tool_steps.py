"""The check of the tools: none of them may raise an unintended exception."""

from collections.abc import Mapping
from typing import Any, Final

from palestra.conformance.examination import Examination, ProbedAnswer, result, skipped
from palestra.conformance.playing import PlayedAnswer
from palestra.conformance.report import CheckResult, VerifierFault
from palestra.schema import TOOL_FAILURES, JsonDict, JsonObject, called, response_of
from palestra.server import UnfitResult

_DEEPEST: Final = 6
"""The depth at which a schema that contains itself is no longer filled in."""
_TEXTS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


async def check_tools(work: Examination) -> CheckResult:
    """Call each tool once with valid arguments; report the tool errors of all probes."""
    tools = sorted(work.door.tools)
    if not tools or work.door.takes_turns or not work.rows:
        return skipped("tools", "it has no tools" if work.rows else "there are no example rows")
    for name in tools:
        call = called(name, arguments_for(work.door.schemas.get(name, {})))
        response = response_of(call, "Done.")
        work.let_judge(award=False)
        probe = ProbedAnswer("tool call", work.rows[0], response, 0)
        await work.ask(probe, blocked_s=work.limits.blocked_s)
    return result("tools", len(tools), _broken(work))


def _broken(work: Examination) -> list[VerifierFault]:
    """Return one finding for each tool and type of exception, with the first answer that caused it."""
    faults_found: dict[tuple[str, str], VerifierFault] = {}
    for probe, verdict in work.all_verdicts:
        for tool, kind, message in _faults(verdict):
            problem = (
                f"the tool {tool} {message}"
                if kind == UnfitResult.__name__
                else f"the tool {tool} raised {kind}: {message}; fix the tool, or raise "
                "palestra.ToolError where it rejects a call on purpose"
            )
            faults_found.setdefault((tool, kind), probe.finding(problem))
    return list(faults_found.values())


def _faults(verdict: PlayedAnswer) -> list[tuple[str, str, str]]:
    faults_told = (verdict.reported or {}).get(TOOL_FAILURES)
    return [
        (str(fault["tool"]), str(fault["type"]), str(fault["message"]))
        for fault in (faults_told if isinstance(faults_told, list) else ())
        if isinstance(fault, dict) and {"tool", "type", "message"} <= fault.keys()
    ]


def arguments_for(schema: JsonObject) -> JsonDict:
    """Return arguments that a model might call a tool with: the required parameters, valid for the
    schema.
    """
    return _object(schema, schema, 0)


def _value(schema: Any, root_schema: JsonObject, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return "text"
    if isinstance(ref := schema.get("$ref"), str):
        return (
            None
            if depth > _DEEPEST
            else _value(_referred(ref, root_schema), root_schema, depth + 1)
        )
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _value(schema[key][0], root_schema, depth + 1)
    return _of_type(schema, root_schema, depth)


def _of_type(schema: JsonObject, root_schema: JsonObject, depth: int) -> Any:
    match schema.get("type"):
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            few = max(int(schema.get("minItems", 1)), 0) if depth <= _DEEPEST else 0
            return [_value(schema.get("items", {}), root_schema, depth + 1) for _ in range(few)]
        case "object":
            return _object(schema, root_schema, depth + 1)
        case _:
            text = _TEXTS.get(str(schema.get("format")), "text")
            longest = int(schema.get("maxLength", len(text)))
            return text.ljust(int(schema.get("minLength", 0)), "x")[: max(longest, 0)]


def _number(schema: JsonObject) -> Any:
    step = schema.get("multipleOf", 1)
    near = [schema.get(key, 0) for key in ("minimum", "exclusiveMinimum", "maximum")]
    below = schema.get("exclusiveMaximum", 1)
    tried = [1, step, *near, *(bound + step for bound in near), below - step, below / 2]
    return next((value for value in tried if _within(value, schema)), 1)


def _within(value: float, schema: JsonObject) -> bool:
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and value > schema.get("exclusiveMinimum", value - 1)
        and value < schema.get("exclusiveMaximum", value + 1)
        and (schema.get("type") != "integer" or value == int(value))
        and not value % schema.get("multipleOf", value or 1)
    )


def _object(schema: JsonObject, root_schema: JsonObject, depth: int) -> JsonDict:
    if depth > _DEEPEST:
        return {}
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {name: _value(properties.get(name), root_schema, depth + 1) for name in required}


def _referred(ref: str, root_schema: JsonObject) -> Any:
    node: Any = root_schema
    for part in ref.removeprefix("#/").split("/"):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node
