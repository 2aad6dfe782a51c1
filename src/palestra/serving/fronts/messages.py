"""Anthropic's Messages in front of a model server that speaks the Responses API. Pure functions."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from pydantic import Field

from palestra.schema import (
    FunctionCall,
    OutputMessage,
    Reasoning,
    Refusal,
    Response,
    ResponseCreateParams,
    WireModel,
    to_plain,
)
from palestra.serving.fronts.asked import JSON, params_from, refuse, tokens_of, with_tokens

_STOP = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}

_PASSED_ON = ("temperature", "top_p", "top_k")


class MessagesRequest(WireModel):
    """What is asked of `/v1/messages`."""

    messages: list[JSON]
    max_tokens: int
    model: str | None = None
    system: str | list[JSON] | None = None
    tools: list[JSON] | None = None
    tool_choice: JSON | None = None
    stop_sequences: list[str] | None = None
    thinking: JSON | None = None
    stream: bool | None = None


class MessagesUsage(WireModel):
    """Tokens; those read from the cache are not among `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0


class MessagesAnswer(WireModel):
    """What `/v1/messages` answers."""

    id: str
    type: str = "message"
    role: str = "assistant"
    model: str
    content: list[JSON]
    stop_reason: str | None
    stop_sequence: str | None = None
    usage: MessagesUsage = Field(default_factory=MessagesUsage)


def params_from_messages(body: MessagesRequest) -> ResponseCreateParams:
    """The same request to the Responses API. Raises `RowError` for what that cannot say."""
    asked = to_plain(body)
    fields: JSON = {name: asked.get(name) for name in _PASSED_ON}
    fields["model"] = body.model
    fields["max_output_tokens"] = body.max_tokens
    fields["instructions"] = _system(body.system)
    fields["input"] = [
        item
        for index, message in enumerate(body.messages)
        for item in _items(message, f"/messages/{index}")
    ]
    if body.stop_sequences:
        fields["stop"] = body.stop_sequences
    if body.tools:
        fields["tools"] = [_tool(tool, f"/tools/{index}") for index, tool in enumerate(body.tools)]
    if body.tool_choice:
        fields["tool_choice"] = _tool_choice(body.tool_choice)
        if body.tool_choice.get("disable_parallel_tool_use"):
            fields["parallel_tool_calls"] = False
    return params_from(fields)


def message_from_response(response: Response) -> MessagesAnswer:
    """The same answer as a message."""
    content = [block for item in response.output for block in _blocks(item)]
    usage = response.usage
    cached = 0 if usage is None else usage.input_tokens_details.cached_tokens
    return MessagesAnswer.model_construct(
        None,
        id=response.id,
        type="message",
        role="assistant",
        model=response.model,
        content=content,
        stop_reason=_stop_reason(response, content),
        stop_sequence=None,
        usage=MessagesUsage(
            input_tokens=0 if usage is None else usage.input_tokens - cached,
            output_tokens=0 if usage is None else usage.output_tokens,
            cache_read_input_tokens=cached,
        ),
        **tokens_of(response),
    )


def _system(system: str | list[JSON] | None) -> str | None:
    if isinstance(system, list):
        return "\n\n".join(str(block.get("text", "")) for block in system)
    return system


def _items(message: JSON, pointer: str) -> list[JSON]:
    role, content = message.get("role"), message.get("content")
    if role not in {"user", "assistant"}:
        refuse(f"{pointer}/role", f"user or assistant, got {role!r:.40}")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        refuse(f"{pointer}/content", "text or a list of blocks")
    if role == "user":
        return list(_heard(blocks, f"{pointer}/content"))
    own = [_own_item(block, f"{pointer}/content/{i}") for i, block in enumerate(blocks)]
    return with_tokens(own, message)


def _heard(blocks: list[JSON], pointer: str) -> Iterator[JSON]:
    """Results of tools, each an item, and what the user said between them as messages."""
    parts: list[JSON] = []
    for index, block in enumerate(blocks):
        where = f"{pointer}/{index}"
        if block.get("type") != "tool_result":
            parts.append(_part(block, where))
            continue
        if parts:
            yield {"type": "message", "role": "user", "content": parts}
            parts = []
        yield {
            "type": "function_call_output",
            "call_id": block.get("tool_use_id"),
            "output": _result(block.get("content"), f"{where}/content"),
        }
    if parts:
        yield {"type": "message", "role": "user", "content": parts}


def _result(content: Any, pointer: str) -> str | list[JSON]:
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(block, f"{pointer}/{index}") for index, block in enumerate(content)]


def _part(block: JSON, pointer: str) -> JSON:
    if block.get("type") == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, Mapping):
        refuse(pointer, f"text, an image or a tool result, got type {block.get('type')!r:.40}")
    url = source.get("url")
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "input_image", "image_url": url}


def _own_item(block: JSON, pointer: str) -> JSON:
    kind = block.get("type")
    if kind not in {"text", "thinking", "tool_use"}:
        refuse(pointer, f"text, thinking or a tool_use, got type {kind!r:.40}")
    if kind == "text":
        text = {"type": "output_text", "text": block["text"], "annotations": []}
        return {"type": "message", "role": "assistant", "content": [text]}
    if kind == "thinking":
        summary = [{"type": "summary_text", "text": block.get("thinking", "")}]
        return {"type": "reasoning", "summary": summary}
    return {
        "type": "function_call",
        "call_id": block.get("id"),
        "name": block.get("name"),
        "arguments": _arguments(block),
    }


def _arguments(block: JSON) -> str:
    """The arguments as the model wrote them, where they still mean the same."""
    given, written = block.get("input", {}), block.get("arguments")
    if isinstance(written, str) and _as_object(written) == given:
        return written
    return orjson.dumps(given).decode()


def _as_object(arguments: str) -> JSON:
    """What a `tool_use` can say of arguments: they must be an object there."""
    try:
        found = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _tool(tool: JSON, pointer: str) -> JSON:
    if "name" not in tool or "input_schema" not in tool:
        refuse(pointer, "a tool with a name and an input_schema (tools of the provider are not)")
    found = {"type": "function", "name": tool["name"], "parameters": tool["input_schema"]}
    return found if "description" not in tool else {**found, "description": tool["description"]}


def _tool_choice(choice: JSON) -> Any:
    if choice.get("type") == "tool":
        return {"type": "function", "name": choice.get("name")}
    return {"any": "required"}.get(str(choice.get("type")), choice.get("type"))


def _blocks(item: Any) -> Iterator[JSON]:
    if isinstance(item, Reasoning):
        for block in item.summary:
            yield {"type": "thinking", "thinking": block.text, "signature": ""}
    elif isinstance(item, OutputMessage):
        # An empty text is no block: Anthropic's own clients refuse to send one back.
        if item.text:
            yield {"type": "text", "text": item.text}
        for part in item.content:
            if isinstance(part, Refusal):
                yield {"type": "text", "text": part.refusal}
    elif isinstance(item, FunctionCall):
        yield _tool_use(item)


def _tool_use(call: FunctionCall) -> JSON:
    given = _as_object(call.arguments)
    block: JSON = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": given}
    if orjson.dumps(given).decode() != call.arguments:
        # As the model wrote them, for the way back: JSON may be written in many ways.
        block["arguments"] = call.arguments
    return block


def _stop_reason(response: Response, content: list[JSON]) -> str:
    details = response.incomplete_details
    if details is not None and details.reason in _STOP:
        return _STOP[details.reason]
    if any(block["type"] == "tool_use" for block in content):
        return "tool_use"
    refused = any(
        isinstance(part, Refusal)
        for item in response.output
        if isinstance(item, OutputMessage)
        for part in item.content
    )
    return "refusal" if refused else "end_turn"
