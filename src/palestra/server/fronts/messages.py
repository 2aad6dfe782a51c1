"""Anthropic's Messages in front of a model server that speaks the Responses API. Pure functions."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from pydantic import Field

from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    CHAT_PART,
    ChatCompletion,
    FunctionCall,
    JsonDict,
    OutputMessage,
    Reasoning,
    Refusal,
    Response,
    ResponseCreateParams,
    WireModel,
    blocks_of,
    encode_json,
    part_of_block,
    to_plain,
)
from palestra.server.fronts.asked import params_from, refuse, tokens_of
from palestra.server.fronts.message_items import as_object, items_from_message, text_of

_STOP = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}

_TRANSLATED = frozenset(
    {
        "messages",
        "max_tokens",
        "system",
        "tools",
        "tool_choice",
        "stop_sequences",
        "stream",
        "output_config",
        "output_format",
    }
)
"""Parameters with another name or form in the Responses API. Parameters in none of these lists pass
unchanged."""

_LEFT_OUT = frozenset(
    {
        "thinking",
        "metadata",
        "service_tier",
        "cache_control",
        "context_management",
        "inference_geo",
    }
)
"""Parameters that clients send by default and that are ignored: the model server's config decides
whether a model thinks, and the client manages the conversation."""

_ELSEWHERE = ("mcp_servers", "container")
"""Parameters for services that only Anthropic's servers have; requests with them are rejected."""


class MessagesRequest(WireModel):
    """The request body of `/v1/messages`."""

    messages: list[JsonDict]
    max_tokens: int
    model: str | None = None
    system: str | list[JsonDict] | None = None
    tools: list[JsonDict] | None = None
    tool_choice: JsonDict | None = None
    stop_sequences: list[str] | None = None
    thinking: JsonDict | None = None
    stream: bool | None = None


class MessagesUsage(WireModel):
    """Token counts. `input_tokens` does not include the tokens read from the cache, of which the
    number may be unknown (None).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None


class MessagesAnswer(WireModel):
    """The answer of `/v1/messages`."""

    id: str
    type: str = "message"
    role: str = "assistant"
    model: str
    content: list[JsonDict]
    stop_reason: str | None
    stop_sequence: str | None = None
    usage: MessagesUsage = Field(default_factory=MessagesUsage)


def params_from_messages(body: MessagesRequest) -> ResponseCreateParams:
    """Convert a Messages request to a Responses API request.

    Raises `RowError`: the request has something that the Responses API cannot express.
    """
    plain = to_plain(body)
    for name in _ELSEWHERE:
        if plain.get(name):
            refuse(f"/{name}", "nothing: it is Anthropic's servers that do this")
    translated = _TRANSLATED.union(_LEFT_OUT, _ELSEWHERE)
    fields: JsonDict = {name: value for name, value in plain.items() if name not in translated}
    fields["max_output_tokens"] = body.max_tokens
    fields["instructions"] = _system(body.system)
    fields["input"] = [
        item
        for index, message in enumerate(body.messages)
        for item in items_from_message(message, f"/messages/{index}")
    ]
    fields |= _output(plain)
    if body.stop_sequences:
        fields["stop"] = body.stop_sequences
    if body.tools:
        fields["tools"] = [_tool(tool, f"/tools/{index}") for index, tool in enumerate(body.tools)]
    if body.tool_choice:
        fields["tool_choice"] = _tool_choice(body.tool_choice)
        if body.tool_choice.get("disable_parallel_tool_use"):
            fields["parallel_tool_calls"] = False
    return params_from(fields)


def _output(plain: JsonDict) -> JsonDict:
    """Return the settings for reasoning effort and output format, from `output_config`."""
    settings: JsonDict = {}
    output = plain.get("output_config") or {}
    for name, value in output.items():
        if value is not None and name not in {"effort", "format"}:
            refuse(f"/output_config/{name}", "`effort` and `format` alone")
    if output.get("effort") is not None:
        settings["reasoning"] = {"effort": output["effort"]}
    output_format = output.get("format") or plain.get("output_format")
    if output_format is not None:
        settings["text"] = {"format": {"name": "answer", **output_format}}
    return settings


def message_from_response(response: Response) -> MessagesAnswer:
    """Convert a response to a message."""
    content = [block for item in response.output for block in _blocks(item)]
    usage = response.usage
    cached = None if usage is None else usage.input_tokens_details.cached_tokens
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
            input_tokens=0 if usage is None else usage.input_tokens - (cached or 0),
            output_tokens=0 if usage is None else usage.output_tokens,
            cache_read_input_tokens=cached,
        ),
        **tokens_of(response),
    )


def _system(system: str | list[JsonDict] | None) -> str | None:
    if not isinstance(system, list):
        return system
    return "\n\n".join(text_of(block, f"/system/{index}") for index, block in enumerate(system))


def _tool(tool: JsonDict, pointer: str) -> JsonDict:
    if "name" not in tool or "input_schema" not in tool:
        refuse(pointer, "a tool with a name and an input_schema (tools of the provider are not)")
    function = {
        name: tool[name] for name in ("description", "strict") if tool.get(name) is not None
    }
    return {
        "type": "function",
        "name": tool["name"],
        "parameters": tool["input_schema"],
        **function,
    }


def _tool_choice(choice: JsonDict) -> Any:
    if choice.get("type") == "tool":
        return {"type": "function", "name": choice.get("name")}
    return {"any": "required"}.get(str(choice.get("type")), choice.get("type"))


def _blocks(item: Any) -> Iterator[JsonDict]:
    if isinstance(item, Reasoning):
        yield from _thinking(item)
    elif isinstance(item, OutputMessage):
        # An empty text is no block: Anthropic's own clients refuse to send one back.
        if item.text:
            yield {"type": "text", "text": item.text}
        for part in item.content:
            if isinstance(part, Refusal):
                yield {"type": "text", "text": part.refusal}
    elif isinstance(item, FunctionCall):
        yield _tool_use(item)


def _thinking(reasoning: Reasoning) -> Iterator[JsonDict]:
    """Yield the thinking blocks of a reasoning item, with the provider's signatures, so that
    clients can send them back.
    """
    extra = reasoning.model_extra or {}
    signatures = {name: extra[name] for name in BESIDE_REASONING if extra.get(name)}
    parts = {block.text: part_of_block(block) for block in reasoning.summary}
    for text in blocks_of(reasoning) or ([""] if signatures else []):
        part = parts.get(text)
        of_part = {} if part is None else {CHAT_PART: part}
        yield {"type": "thinking", "thinking": text, "signature": "", **of_part, **signatures}
        signatures = {}


def _tool_use(call: FunctionCall) -> JsonDict:
    tool_input = as_object(call.arguments)
    block: JsonDict = {
        "type": "tool_use",
        "id": call.call_id,
        "name": call.name,
        "input": tool_input,
    }
    if orjson.dumps(tool_input).decode() != call.arguments:
        # As the model wrote them, for the way back: JSON may be written in many ways.
        block["arguments"] = call.arguments
    signature = (call.model_extra or {}).get(CALL_SIGNATURE)
    return block if signature is None else {**block, CALL_SIGNATURE: signature}


def _stop_reason(response: Response, content: list[JsonDict]) -> str:
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


EVENT_STREAM = "text/event-stream"


def chat_events(completion: ChatCompletion, *, with_usage: bool) -> bytes:
    """Return the event stream of a chat completion: the message, the finish reason, and the usage
    if `with_usage`.
    """
    plain = to_plain(completion)
    head = {key: plain[key] for key in ("id", "created", "model") if key in plain}
    head["object"] = "chat.completion.chunk"
    chunks: list[JsonDict] = []
    for choice in plain["choices"]:
        index = choice.get("index", 0)
        first_choice = {"index": index, "delta": _delta(choice["message"]), "finish_reason": None}
        if choice.get("logprobs"):
            first_choice["logprobs"] = choice["logprobs"]
        last_choice = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks += [{**head, "choices": [first_choice]}, {**head, "choices": [last_choice]}]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": plain.get("usage")})
    return b"".join([*(b"data: " + encode_json(chunk) + b"\n\n" for chunk in chunks), _DONE])


_DONE = b"data: [DONE]\n\n"


def message_events(answer: MessagesAnswer) -> bytes:
    """Return the event stream of a message, block by block."""
    return b"".join(
        b"event: " + name.encode() + b"\ndata: " + encode_json({"type": name, **data}) + b"\n\n"
        for name, data in _message_events(to_plain(answer))
    )


def _delta(message: JsonDict) -> JsonDict:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]}


def _message_events(plain: JsonDict) -> Iterator[tuple[str, JsonDict]]:
    usage = plain["usage"]
    opening = {**plain, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield "message_start", {"message": opening}
    for index, block in enumerate(plain["content"]):
        empty, deltas = _in_pieces(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    closing = {"stop_reason": plain["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": closing, "usage": {"output_tokens": usage["output_tokens"]}}
    yield "message_stop", {}


def _in_pieces(block: JsonDict) -> tuple[JsonDict, Iterable[JsonDict]]:
    """Split a block into the block with empty content, and the deltas with its content."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        thinking: Any = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": ""}, [thinking]
    written = encode_json(block["input"]).decode()
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
