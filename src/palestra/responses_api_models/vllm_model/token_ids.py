"""What a turn was in tokens: read from an endpoint's answer, kept on the conversation, sealed.

prompt ids: everything the model read before its first token, in the order it read it.
generation ids: every token it sampled, the one that ends the turn included.
log probs: of each sampled token, as the sampler saw it; as many as there are generation ids.
seal: a digest over the conversation up to and with a turn, and over the turn's tokens. What is
changed later (an edited history, other ids) no longer has the seal that fits. It has no key: it
shows accidents and careless edits, and keeps nobody from forging.
continuity: how a turn's prompt relates to the tokens before it.
"""

import hashlib
import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import msgspec
import orjson

from palestra.schema import (
    CONTINUITY,
    TURN_FIELDS,
    ChatMessage,
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    InputText,
    JsonObject,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    Tool,
    TurnTokens,
    UpstreamMessage,
    UpstreamUsage,
    completion_decoder,
    field_of,
    tokens_on,
)

_SPELT = re.compile(r"token_id:([0-9]+)")
"""How vLLM spells an id in place of a token's text."""
_NEVER_PART = frozenset({*TURN_FIELDS, "id", "status"})


class State(StrEnum):
    """How a turn's prompt relates to the tokens of the turn before."""

    FIRST = "first"
    """There was no turn with token ids before."""
    CONTINUED = "continued"
    """It starts with exactly the ids of the turn before, its prompt and its generation."""
    UNSEALED = "unsealed"
    """It starts with exactly those ids; the turn before came back without its seal, so they were
    compared with the history as the endpoint renders it."""
    BROKEN = "broken"
    """It does not; `Continuity.reason` says why."""


class Reason(StrEnum):
    """Why a prompt does not start with the ids before it. The values are sentences."""

    EDITED = "the history is not the one that the model read and wrote"
    UNSEALED = "the history carries token ids without a seal, and is other ids when it is rendered"
    RENDERED = "the endpoint renders and tokenizes the history anew and takes no token ids"
    TEMPLATE = "the chat template does not tell where the earlier turns end"
    MEDIA = "images or sounds are placed by their position in the rendered prompt"
    NO_IDS = "the history holds turns of the model without token ids"


@dataclass(frozen=True, slots=True)
class Continuity:
    """The marker of one turn; `seal` is empty when nobody sealed it."""

    state: State
    reason: str = ""
    seal: str = ""

    def as_json(self) -> dict[str, str]:
        """As it stands on an item."""
        return {"state": self.state.value, "reason": self.reason, "seal": self.seal}

    @classmethod
    def of(cls, marked: Any) -> Self | None:
        """The marker of an item or message; None when there is none that can be read."""
        if not isinstance(marked, Mapping):
            return None
        try:
            state = State(marked["state"])
        except (KeyError, ValueError):
            return None
        return cls(state, str(marked.get("reason", "")), str(marked.get("seal", "")))


class MissingTokens(ValueError):
    """An answer without what was asked for; the message says which part is missing."""


class TokenChoice(msgspec.Struct):
    """The first choice of a chat completion, with its tokens."""

    message: UpstreamMessage
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: Any = None
    token_ids: list[int] | None = None


class TokenCompletion(msgspec.Struct):
    """A chat completion as an upstream sent it, reduced to what the conversion and we read."""

    choices: list[TokenChoice]
    model: str = ""
    id: str = ""
    created: float = 0
    usage: UpstreamUsage | None = None
    error: Any = None
    prompt_token_ids: list[int] | None = None


decode_with_tokens = completion_decoder(TokenCompletion)


def generated(choice: TokenChoice) -> tuple[list[int], list[float]]:
    """Ids and log probs of what was sampled. Raises `MissingTokens`.

    The ids are the endpoint's own list where it gives one, else they are read from the log
    probs; where it gives both, they must agree.
    """
    try:
        entries = (choice.logprobs or {}).get("content") or []
        log_probs = [entry["logprob"] for entry in entries]
    except (TypeError, KeyError, AttributeError) as error:
        raise MissingTokens(f"log probs of an unknown form: {choice.logprobs!r:.200}") from error
    spelt = _spelt_ids(entries)
    ids = choice.token_ids if choice.token_ids is not None else spelt
    if ids is None:
        raise MissingTokens(
            "no `token_ids` and no `token_id:…` in its log probs" if entries else "no log probs"
        )
    # Too few log probs are another matter, and told as such.
    if spelt is not None and entries and spelt != ids[: len(spelt)]:
        raise MissingTokens("`token_ids` and the ids in its log probs that differ")
    return ids, log_probs


def _spelt_ids(entries: Sequence[JsonObject]) -> list[int] | None:
    """The ids that stand for texts; None unless all do: a text may be a number, and is no id."""
    texts = [entry.get("token") for entry in entries]
    spelt = [_SPELT.fullmatch(text) if isinstance(text, str) else None for text in texts]
    return [int(match[1]) for match in spelt if match] if spelt and all(spelt) else None


# Where the tokens stand in a conversation


def continuity_on(carrier: Any) -> Continuity | None:
    """The marker that an item or a message carries."""
    return Continuity.of(field_of(carrier, CONTINUITY))


def attach(carrier: Any, tokens: TurnTokens, continuity: Continuity) -> None:
    """Put tokens and marker on the last item of a turn, or on a chat message."""
    carrier.prompt_token_ids = tokens.prompt
    carrier.generation_token_ids = tokens.generation
    carrier.generation_log_probs = tokens.log_probs
    carrier.token_continuity = continuity.as_json()


def last_with_tokens(carriers: Sequence[Any]) -> int | None:
    """The index of the last item or message that carries all three lists."""
    for index in range(len(carriers) - 1, -1, -1):
        if tokens_on(carriers[index]) is not None:
            return index
    return None


# Seals


def seal_items(
    items: Iterable[InputItem | OutputItem],
    tokens: TurnTokens,
    *,
    instructions: str | None,
    tools: Iterable[Tool],
) -> str:
    """The seal of a Responses conversation whose last item ends the turn of `tokens`."""
    plain_items = [_plain_item(item) for item in items]
    return _seal([instructions or "", _plain_tools(tools), plain_items], tokens)


def seal_messages(
    messages: Iterable[ChatMessage],
    tokens: TurnTokens,
    *,
    tools: Iterable[JsonObject],
) -> str:
    """The seal of a chat whose last message is the turn of `tokens`."""
    return _seal([[dict(tool) for tool in tools], [_plain_message(m) for m in messages]], tokens)


def _seal(sealed: Any, tokens: TurnTokens) -> str:
    digest = hashlib.sha256(orjson.dumps(sealed, option=orjson.OPT_SORT_KEYS))
    digest.update(array("q", tokens.prompt).tobytes())
    digest.update(b"|")
    digest.update(array("q", tokens.generation).tobytes())
    digest.update(b"|")
    # One that the endpoint did not know is a null.
    log_probs = (math.nan if value is None else value for value in tokens.log_probs)
    digest.update(array("d", log_probs).tobytes())
    return digest.hexdigest()[:32]


def _plain_tools(tools: Iterable[Tool]) -> list[Any]:
    return [tool.model_dump(exclude_none=True) for tool in tools]


def _plain_item(item: InputItem | OutputItem) -> list[Any]:
    """What an item says, however it was written down: the rest may change on its way."""
    if isinstance(item, Message):
        return ["message", item.role, _plain_content(item.content)]
    if isinstance(item, FunctionCall):
        return ["function_call", item.name, item.arguments, item.call_id]
    if isinstance(item, FunctionCallOutput):
        return ["function_call_output", item.call_id, item.output]
    if isinstance(item, Reasoning):
        blocks = [part.text for part in item.summary]
        return ["reasoning", blocks, item.content or [], item.encrypted_content or ""]
    dumped = item.model_dump(exclude_none=True)
    return [item.type, {name: dumped[name] for name in dumped if name not in _NEVER_PART}]


def _plain_content(content: str | list[ContentPart]) -> list[Any]:
    if isinstance(content, str):
        return [["text", content]]
    return [
        ["text", part.text]
        if isinstance(part, InputText | OutputText)
        else [part.type, part.model_dump(exclude_none=True)]
        for part in content
    ]


def _plain_message(message: ChatMessage) -> list[Any]:
    calls = [
        [call.get("id"), (call.get("function") or {}).get("name"), _arguments(call)]
        for call in message.tool_calls or ()
    ]
    content = message.content or ""
    reasoning = message.reasoning_content or (message.model_extra or {}).get("reasoning") or ""
    return [message.role, content, calls, message.tool_call_id or "", reasoning]


def _arguments(call: JsonObject) -> Any:
    return (call.get("function") or {}).get("arguments")
