r"""Correct what llama.cpp's server does not support: pure functions over requests and answers.

The server ignores `tool_choice`, supports only tools that the chat template renders, answers 500 to
an image or a malformed call, and lets a request without a limit fill its context. So tools are
given to the template only, calls are sent and read as text, and a required call is enforced by
decoding under a JSON schema.

The text of a call is `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`. llama.cpp's own
parser for this text is not used: it answers 500 when the model writes the text slightly wrong, and
to every history that contains such a text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from palestra.errors import ModelRejectedRow
from palestra.schema import JsonDict
from palestra.transport import new_id

_TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class WrittenCall(NamedTuple):
    """One tool call; `arguments` is JSON text."""

    name: str
    arguments: str


def write_call(call: WrittenCall) -> str:
    """Return the call as the text that the model itself would write."""
    name = orjson.dumps(call.name).decode()
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments or "{}"}}}\n</tool_call>'


def read_calls(text: str) -> tuple[str, list[WrittenCall]]:
    """Return the text outside the calls, and the calls in order.

    Anything that is not a valid call stays in the text unchanged: a tag without its closing tag (at
    the token limit), invalid JSON, an object without a name.
    """
    calls: list[WrittenCall] = []

    def take(match: re.Match[str]) -> str:
        bare_calls = read_bare_calls(match[1])
        calls.extend(bare_calls)
        return "" if bare_calls else match[0]

    remainder = _CALL.sub(take, text)
    return (remainder.strip() if calls else text), calls


def read_bare_calls(text: str) -> list[WrittenCall]:
    """Return the calls in a JSON object or in a list of objects; [] when the text is anything else."""
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    entries = decoded if isinstance(decoded, list) else [decoded]
    calls = [call for entry in entries if (call := _call(entry)) is not None]
    return calls if len(calls) == len(entries) else []


def _call(entry: Any) -> WrittenCall | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
        return None
    arguments = entry.get("arguments", {})
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return WrittenCall(entry["name"], text)


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request in the form for llama.cpp, with the settings to read its answer."""

    body: JsonDict
    has_tools: bool = False
    call_enforced: bool = False
    """Whether the whole answer is one call, without tags."""
    parallel_calls: bool = True


def to_engine_request(request: JsonDict, *, max_tokens: int, context_tokens: int) -> EngineRequest:
    """Return the request, corrected where llama.cpp would ignore or refuse something.

    `max_tokens` applies when the request sets no limit. `context_tokens` caps a higher limit,
    because llama.cpp would continue beyond the context. Raises `ModelRejectedRow`: the row needs
    something that a small text model cannot do.
    """
    body = {
        key: value
        for key, value in request.items()
        if key not in {"tools", "tool_choice", "parallel_tool_calls"}
    }
    body["messages"] = [
        _as_text(message, f"/messages/{index}") for index, message in enumerate(request["messages"])
    ]
    _limit_answer(body, max_tokens, context_tokens)
    tools, enforce = _chosen(request.get("tools") or [], request.get("tool_choice") or "auto")
    if not tools:
        return EngineRequest(body)
    body["chat_template_kwargs"] = {**body.get("chat_template_kwargs", {}), "tools": tools}
    if enforce:
        schema = {"name": "tool_call", "schema": call_schema(tools)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return EngineRequest(
        body,
        has_tools=True,
        call_enforced=enforce,
        parallel_calls=request.get("parallel_tool_calls") is not False,
    )


def _limit_answer(body: JsonDict, default_tokens: int, most_tokens: int) -> None:
    limits = {name: body[name] for name in _TOKEN_LIMITS if body.get(name) is not None}
    for name, limit in limits.items():
        if limit < 1:  # -1 would mean no limit at all
            raise ModelRejectedRow(
                f"/{name}: at least 1, got {limit}", hint="correct the settings of this row"
            )
        body[name] = min(limit, most_tokens)
    if not limits:
        body["max_tokens"] = min(default_tokens, most_tokens)


def with_calls(completion: JsonDict, request: EngineRequest) -> JsonDict:
    """Return the completion with the calls in its text moved to `tool_calls`."""
    if not request.has_tools:
        return completion
    choices = [_choice_with_calls(choice, request) for choice in completion.get("choices") or []]
    return {**completion, "choices": choices}


def _choice_with_calls(choice: JsonDict, request: EngineRequest) -> JsonDict:
    text = choice["message"].get("content") or ""
    remainder, calls = ("", read_bare_calls(text)) if request.call_enforced else read_calls(text)
    if not calls:
        return choice
    if not request.parallel_calls:
        calls = calls[:1]
    tool_calls = [
        {
            "id": new_id("call_"),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
    message = {**choice["message"], "content": remainder or None, "tool_calls": tool_calls}
    reason = choice.get("finish_reason")
    return {
        **choice,
        "message": message,
        "finish_reason": "tool_calls" if reason == "stop" else reason,
    }


def _as_text(message: JsonDict, pointer: str) -> JsonDict:
    """Return the message with its calls as text. A tool's output becomes a user message."""
    content = message.get("content")
    if isinstance(content, list):
        parts = enumerate(content)
        content = "\n".join(_text_of(part, f"{pointer}/content/{index}") for index, part in parts)
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content or ''}\n</tool_response>"}
    written = [content] if content else []
    for index, call in enumerate(message.get("tool_calls") or []):
        written.append(write_call(_call_of(call, f"{pointer}/tool_calls/{index}/function")))
    return {"role": message["role"], "content": "\n".join(written)}


def _text_of(part: JsonDict, pointer: str) -> str:
    if part.get("type") != "text":
        raise ModelRejectedRow(
            f"the local model reads text only, not {part.get('type')!r}",
            hint="use a model server whose model reads this type of content",
        )
    text = part.get("text")
    if not isinstance(text, str):
        raise ModelRejectedRow(
            f"{pointer}/text: a part of type text needs a text",
            hint="correct the messages of this row",
        )
    return text


def _call_of(tool_call: JsonDict, pointer: str) -> WrittenCall:
    function = tool_call.get("function")
    fields = function if isinstance(function, Mapping) else {}
    name, arguments = fields.get("name"), fields.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise ModelRejectedRow(
            f"{pointer}: a call needs a name and its arguments, both as text",
            hint="correct the messages of this row",
        )
    return WrittenCall(name, arguments)


def _chosen(tools: Sequence[JsonDict], choice: str | JsonDict) -> tuple[list[JsonDict], bool]:
    """Return the tools that `tool_choice` allows, and whether the model must call one of them."""
    names = [_name(tool, index) for index, tool in enumerate(tools)]
    if choice in {"auto", "required"} if isinstance(choice, str) else False:
        return list(tools), bool(tools) and choice == "required"
    if choice == "none":
        return [], False
    wanted_names, enforce = _tools_of_choice(choice)
    if wanted_names is None or not set(wanted_names) <= set(names):
        raise ModelRejectedRow(
            f"tool_choice {choice!r:.200} does not fit the tools: {', '.join(names) or 'none'}",
            hint="auto, none, required, or the name of a tool of the same request",
        )
    chosen_tools = [tool for tool, name in zip(tools, names, strict=True) if name in wanted_names]
    return chosen_tools, enforce


def _tools_of_choice(choice: str | JsonDict) -> tuple[list[str] | None, bool]:
    if not isinstance(choice, Mapping):
        return None, False
    allowed = choice.get("allowed_tools")
    if isinstance(allowed, Mapping):
        names = [_name(tool, index) for index, tool in enumerate(allowed.get("tools") or [])]
        return names, allowed.get("mode") == "required"
    function = choice.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return (None if name is None else [str(name)]), True


def _name(tool: JsonDict, index: int) -> str:
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ModelRejectedRow(
            f"/tools/{index}/function/name: a tool needs a name",
            hint="correct the tools of this row",
        )
    name: str = function["name"]
    return name


def call_schema(tools: Sequence[JsonDict]) -> JsonDict:
    """Return the JSON schema of one call of any of the tools.

    Each tool's parameters are copied under `$defs`, with their references adapted to that place.
    """
    definitions: JsonDict = {}
    calls: list[JsonDict] = []
    for index, tool in enumerate(tools):
        function = tool["function"]
        root = f"#/$defs/{index}"
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        definitions[str(index)] = _rerooted(parameters, root)
        properties = {"name": {"const": function["name"]}, "arguments": {"$ref": root}}
        calls.append(
            {"type": "object", "properties": properties, "required": ["name", "arguments"]}
        )
    return {"$defs": definitions, "anyOf": calls}


def _rerooted(schema: Any, root: str) -> Any:
    if isinstance(schema, list):
        return [_rerooted(entry, root) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: root + value.removeprefix("#")
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _rerooted(value, root)
        for key, value in schema.items()
    }
