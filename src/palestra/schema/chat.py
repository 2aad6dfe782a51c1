"""Chat Completions: the wire types most inference servers speak.

Two halves. The pydantic models are for authors and for our own `/v1/chat/completions`
endpoint; unknown fields are kept. The msgspec structs decode what an upstream answered: they
name only the fields the conversion reads, and are several times cheaper.

Endpoints that answer in parts spell a thought in ways of their own, and want it back in the same:

- Mistral: `{"type": "thinking", "thinking": [{"type": "text", "text": …}]}`
- Databricks: `{"type": "reasoning", "summary": [{"type": "summary_text", "text": …}]}`
- others: `{"type": "reasoning", "text": …}`, or with its words as `content`

So a block of a reasoning item keeps the part that it was as `chat_part`, beside its text.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from palestra.schema.items import Reasoning, SummaryText, WireModel
from palestra.schema.json_types import JsonDict, JsonObject


class ChatMessage(WireModel):
    """One message of a chat. `content` is None when an assistant message only calls tools."""

    role: str
    content: str | list[JsonDict] | None = None
    tool_calls: list[JsonDict] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class ChatCreateParams(WireModel):
    """What is asked of a Chat Completions endpoint."""

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
    """Whether the answer is wanted as an event stream; it comes whole, in one piece, all the same."""


class ChatChoice(WireModel):
    """One completion among `n`."""

    index: int = 0
    message: ChatMessage
    finish_reason: str | None = None
    logprobs: JsonDict | None = None


class ChatCompletion(WireModel):
    """What a Chat Completions endpoint answers."""

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
    """One tool call of an upstream message.

    `extra_content` is Gemini's, which refuses a call that comes back without it.
    """

    function: UpstreamFunction
    id: str | None = None
    extra_content: Any = None


class UpstreamMessage(msgspec.Struct):
    """An upstream assistant message; both spellings of the reasoning field are in use.

    Beside the reasoning stands what only its provider can read of it: OpenRouter's
    `reasoning_details`, LiteLLM's `thinking_blocks`.
    """

    content: Any = None
    tool_calls: list[UpstreamToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    reasoning_details: Any = None
    thinking_blocks: Any = None


class UpstreamChoice(msgspec.Struct):
    """The first of the upstream's choices."""

    message: UpstreamMessage
    finish_reason: str | None = None
    logprobs: Any = None


class UpstreamPromptDetails(msgspec.Struct):
    """Part of the upstream's usage."""

    cached_tokens: int | None = None


class UpstreamCompletionDetails(msgspec.Struct):
    """Part of the upstream's usage."""

    reasoning_tokens: int | None = None


class UpstreamUsage(msgspec.Struct):
    """Token counts as Chat Completions names them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: UpstreamPromptDetails | None = None
    completion_tokens_details: UpstreamCompletionDetails | None = None


class UpstreamCompletion(msgspec.Struct):
    """A chat completion as an upstream sent it, reduced to what the conversion reads."""

    choices: list[UpstreamChoice]
    model: str = ""
    id: str = ""
    created: float = 0
    usage: UpstreamUsage | None = None
    error: Any = None


C = TypeVar("C")

_NOT_FINITE = re.compile(rb"NaN|Infinity")


def completion_decoder(kind: type[C]) -> Callable[[bytes], C]:
    """What decodes an upstream's chat completion into a struct of `kind`.

    A null is taken as absent, as some endpoints write one for whatever they do not know. The
    decoder raises `msgspec.DecodeError` for what is no chat completion. The NaN and Infinity that
    some servers write, and JSON has not, are read as such: they stand among log probs.
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
    """A completion without nulls of its own and of its usage. What the model wrote is left."""
    if not isinstance(plain, dict):
        return plain
    present = {key: value for key, value in plain.items() if value is not None}
    if "usage" in present:
        present["usage"] = _without_nulls(present["usage"])
    return present


BESIDE_REASONING = ("reasoning_details", "thinking_blocks")
"""Fields of a chat message that hold what only its provider can read of its reasoning."""

CALL_SIGNATURE = "extra_content"
"""A field of a tool call: Gemini's signature of the thought behind it."""

_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})
_WORDS = ("thinking", "reasoning", "summary", "content", "text")
"""Where such a part has its words, as text or as parts again."""

CHAT_PART = "chat_part"
"""A field of a block: the part of a chat's content that it was."""


def thought_in(part: Any) -> str | None:
    """The reasoning that a part of a content is; None when it is of another kind.

    Empty for one that only its provider can read.
    """
    if not isinstance(part, Mapping) or str(part.get("type")) not in _KINDS:
        return None
    return next((_words(part[name]) for name in _WORDS if part.get(name) is not None), "")


def block_of_part(part: JsonObject) -> JsonDict:
    """The fields of a summary text for a part that is a thought."""
    return {"type": "summary_text", "text": thought_in(part) or "", CHAT_PART: part}


def part_of_block(block: SummaryText) -> JsonObject | None:
    """The part that a block was, unless it was none or its text was changed since."""
    part = (block.model_extra or {}).get(CHAT_PART)
    return part if part is not None and thought_in(part) == block.text else None


def blocks_of(reasoning: Reasoning) -> list[str]:
    """What was thought: the thoughts themselves where they are given, else their summary."""
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
