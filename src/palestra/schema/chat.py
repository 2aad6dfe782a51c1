"""Chat Completions: the wire types of most inference servers.

The pydantic models are for authors and for Palestra's own `/v1/chat/completions` endpoint; they
keep unknown fields. The msgspec structs decode responses of model endpoints (the upstream): they
contain only the fields that the conversion reads, and are several times faster.

Some endpoints return content in parts. They write reasoning in different forms, and expect the same
form back:

- Mistral: `{"type": "thinking", "thinking": [{"type": "text", "text": …}]}`
- Databricks: `{"type": "reasoning", "summary": [{"type": "summary_text", "text": …}]}`
- others: `{"type": "reasoning", "text": …}`, or with the text in `content`

Therefore a block of a reasoning item keeps the original part as `chat_part`, next to its text.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from palestra.schema.items import Reasoning, SummaryText, WireModel
from palestra.schema.json_types import JsonDict, JsonObject


class ChatMessage(WireModel):
    """One message of a chat. `content`: None when an assistant message contains only tool calls."""

    role: str
    content: str | list[JsonDict] | None = None
    tool_calls: list[JsonDict] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class ChatCreateParams(WireModel):
    """The request parameters of a Chat Completions call."""

    messages: list[ChatMessage]
    model: str | None = None
    tools: list[JsonDict] | None = None
    tool_choice: str | JsonDict | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    """Whether the client requests an event stream. The whole response is then sent as one event."""


class ChatChoice(WireModel):
    """One of the `n` completions in a response."""

    index: int = 0
    message: ChatMessage
    finish_reason: str | None = None
    logprobs: JsonDict | None = None


class ChatCompletion(WireModel):
    """The response of a Chat Completions endpoint."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    object: Literal["chat.completion"] = "chat.completion"
    usage: JsonDict | None = None


class UpstreamFunction(msgspec.Struct):
    """The function part of a tool call. Some servers send arguments as an object, not text."""

    name: str
    arguments: Any = ""


class UpstreamToolCall(msgspec.Struct):
    """One tool call in an upstream message.

    `extra_content`: Gemini's signature; Gemini rejects a call that is sent back without it.
    """

    function: UpstreamFunction
    id: str | None = None
    extra_content: Any = None


class UpstreamMessage(msgspec.Struct):
    """An assistant message from an upstream. Servers use either of two names for the reasoning
    field.

    `reasoning_details` (OpenRouter) and `thinking_blocks` (LiteLLM) contain reasoning in a form
    that only the provider can read.
    """

    content: Any = None
    tool_calls: list[UpstreamToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    reasoning_details: Any = None
    thinking_blocks: Any = None


class UpstreamChoice(msgspec.Struct):
    """One choice of an upstream completion."""

    message: UpstreamMessage
    finish_reason: str | None = None
    logprobs: Any = None


class UpstreamPromptDetails(msgspec.Struct):
    """The number of cached prompt tokens in an upstream's usage."""

    cached_tokens: int | None = None


class UpstreamCompletionDetails(msgspec.Struct):
    """The number of reasoning tokens in an upstream's usage."""

    reasoning_tokens: int | None = None


class UpstreamUsage(msgspec.Struct):
    """Token counts under their Chat Completions names."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: UpstreamPromptDetails | None = None
    completion_tokens_details: UpstreamCompletionDetails | None = None


class UpstreamCompletion(msgspec.Struct):
    """An upstream's chat completion, with only the fields that the conversion reads."""

    choices: list[UpstreamChoice]
    model: str = ""
    id: str = ""
    created: float = 0
    usage: UpstreamUsage | None = None
    error: Any = None


C = TypeVar("C")

_NOT_FINITE = re.compile(rb"NaN|Infinity")


def completion_decoder(kind: type[C]) -> Callable[[bytes], C]:
    """Return a function that decodes an upstream's chat completion into a struct of `kind`.

    A null counts as absent, because some endpoints send null for unknown values. The function
    raises `msgspec.DecodeError`: the body is not a chat completion. NaN and Infinity, which some
    servers write although JSON does not allow them, are accepted: they occur in log probs.
    """
    decoder = msgspec.json.Decoder(kind)

    def decode(body: bytes) -> C:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(body)), kind)
        except msgspec.DecodeError:
            if _NOT_FINITE.search(body) is None:
                raise
            return msgspec.convert(_without_nulls(_decoded_by_python(body)), kind)

    return decode


def _decoded_by_python(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


decode_completion = completion_decoder(UpstreamCompletion)


def _without_nulls(plain: Any) -> Any:
    """Remove null fields from a completion and its usage. The model's output is not changed."""
    if not isinstance(plain, dict):
        return plain
    present = {key: value for key, value in plain.items() if value is not None}
    if "usage" in present:
        present["usage"] = _without_nulls(present["usage"])
    return present


BESIDE_REASONING = ("reasoning_details", "thinking_blocks")
"""Message fields with reasoning in a form that only the provider can read."""

CALL_SIGNATURE = "extra_content"
"""The field of a tool call with Gemini's signature of the reasoning behind the call."""

_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})
_WORDS = ("thinking", "reasoning", "summary", "content", "text")
"""The fields of a reasoning part that may contain its text, as a string or as nested parts."""

CHAT_PART = "chat_part"
"""The field of a block that keeps its original chat content part."""


def thought_in(part: Any) -> str | None:
    """Return the reasoning text of a content part; None when the part is not reasoning.

    The text is empty when only the provider can read the reasoning.
    """
    if not isinstance(part, Mapping) or str(part.get("type")) not in _KINDS:
        return None
    return next((_words(part[name]) for name in _WORDS if part.get(name) is not None), "")


def block_of_part(part: JsonObject) -> JsonDict:
    """Return the fields of a `SummaryText` for a reasoning part."""
    return {"type": "summary_text", "text": thought_in(part) or "", CHAT_PART: part}


def part_of_block(block: SummaryText) -> JsonObject | None:
    """Return the original content part of a block; None when there is none or the block's text was
    changed.
    """
    part = (block.model_extra or {}).get(CHAT_PART)
    return part if part is not None and thought_in(part) == block.text else None


def blocks_of(reasoning: Reasoning) -> list[str]:
    """Return the reasoning texts: the full reasoning if present, else its summary."""
    blocks = [_words([part]) for part in reasoning.content or ()]
    return blocks if any(blocks) else [block.text for block in reasoning.summary]


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "".join([_words_of_part(part) for part in parts])


def _words_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    thought = thought_in(part)
    return str(part.get("text") or "") if thought is None else thought
