"""The tokens of a model turn: read from an endpoint's answer, stored on the conversation, and
sealed.

- prompt ids: all tokens that the model read before its first generated token, in order.
- generation ids: every token that it sampled, including the token that ends the turn.
- log probs: one for each sampled token, as the sampler computed it.
- seal: a digest of the conversation up to and including a turn, and of the turn's tokens. After
  a later change (an edited history, other ids) the seal no longer fits. It has no key: it shows
  accidents and careless edits, but does not prevent forgery.
- continuity: how a turn's prompt relates to the tokens before it.
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
    put_tokens,
    tokens_on,
)

_SPELT = re.compile(r"token_id:([0-9]+)")
"""The text that vLLM writes in place of a token's text to give its id."""
_NEVER_PART = frozenset({*TURN_FIELDS, "id", "status"})


class State(StrEnum):
    """How a turn's prompt relates to the tokens of the turn before."""

    FIRST = "first"
    """There is no earlier turn with token ids."""
    CONTINUED = "continued"
    """The prompt starts with exactly the token ids of the turn before: its prompt and its
    generation."""
    UNSEALED = "unsealed"
    """The prompt starts with exactly the token ids of the turn before, but that turn came back
    without its seal. The ids were compared with the history as the endpoint renders it."""
    BROKEN = "broken"
    """The prompt does not start with the token ids of the turn before; `Continuity.reason` gives
    the reason."""


class Reason(StrEnum):
    """Why a prompt does not start with the token ids before it. The values are sentences for users."""

    EDITED = "the history is not the one that the model read and wrote"
    UNSEALED = "the history carries token ids without a seal, and is other ids when it is rendered"
    RENDERED = "the endpoint renders and tokenizes the history anew and takes no token ids"
    TEMPLATE = "the chat template does not tell where the earlier turns end"
    MEDIA = "images or sounds are placed by their position in the rendered prompt"
    NO_IDS = "the history holds turns of the model without token ids"


@dataclass(frozen=True, slots=True)
class Continuity:
    """The continuity marker of one turn. `seal` is empty when the turn is not sealed."""

    state: State
    reason: str = ""
    seal: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the marker as it is stored on an item."""
        return {"state": self.state.value, "reason": self.reason, "seal": self.seal}

    @classmethod
    def of(cls, marked: Any) -> Self | None:
        """Read the marker of an item or message; None when there is no readable marker."""
        if not isinstance(marked, Mapping):
            return None
        try:
            state = State(marked["state"])
        except (KeyError, ValueError):
            return None
        return cls(state, str(marked.get("reason", "")), str(marked.get("seal", "")))


class MissingTokens(ValueError):
    """The error for an answer without the requested tokens; the message names the missing part."""


class TokenChoice(msgspec.Struct):
    """The first choice of a chat completion, with its tokens."""

    message: UpstreamMessage
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: Any = None
    token_ids: list[int] | None = None


class TokenCompletion(msgspec.Struct):
    """A chat completion from an endpoint, with only the fields that Palestra reads."""

    choices: list[TokenChoice]
    model: str = ""
    id: str = ""
    created: float = 0
    usage: UpstreamUsage | None = None
    error: Any = None
    prompt_token_ids: list[int] | None = None


decode_with_tokens = completion_decoder(TokenCompletion)


def generated(choice: TokenChoice) -> tuple[list[int], list[float]]:
    """Return the token ids and log probs that were sampled. Raises `MissingTokens`.

    The ids come from the endpoint's own list, else from the log probs. When the answer has both,
    they must agree.
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
    """Return the ids written in place of token texts. None unless every text is `token_id:N`: a
    plain number may be ordinary text.
    """
    texts = [entry.get("token") for entry in entries]
    spelt = [_SPELT.fullmatch(text) if isinstance(text, str) else None for text in texts]
    return [int(match[1]) for match in spelt if match] if spelt and all(spelt) else None


# Where the tokens stand in a conversation


def continuity_on(carrier: Any) -> Continuity | None:
    """Return the continuity marker of an item or a message."""
    return Continuity.of(field_of(carrier, CONTINUITY))


def attach(carrier: Any, tokens: TurnTokens, continuity: Continuity) -> None:
    """Store the tokens and the marker on the last item of a turn, or on a chat message."""
    put_tokens(carrier, tokens)
    carrier.token_continuity = continuity.as_json()


def last_with_tokens(carriers: Sequence[Any]) -> int | None:
    """Return the index of the last item or message that has all three lists, or None."""
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
    """Return the seal of a Responses conversation whose last item ends the turn of `tokens`."""
    plain_items = [_plain_item(item) for item in items]
    return _seal([instructions or "", _plain_tools(tools), plain_items], tokens)


def seal_messages(
    messages: Iterable[ChatMessage],
    tokens: TurnTokens,
    *,
    tools: Iterable[JsonObject],
) -> str:
    """Return the seal of a chat whose last message is the turn of `tokens`."""
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
    """Return an item's content in one fixed form; other fields may change in transit and are not
    sealed.
    """
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
