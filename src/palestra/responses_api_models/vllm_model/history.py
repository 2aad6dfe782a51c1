"""The last turn that a conversation carries token ids of, and whether it can be continued."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from palestra.responses_api_models.chat.messages import to_messages
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.vllm_model.token_ids import (
    Reason,
    continuity_on,
    last_with_tokens,
    seal_items,
    seal_messages,
)
from palestra.responses_api_models.vllm_model.turns import Previous
from palestra.schema import (
    TOKEN_FIELDS,
    ChatMessage,
    InputItem,
    JsonDict,
    JsonObject,
    Message,
    ResponseCreateParams,
    TurnTokens,
    changed,
    is_models_own,
    tokens_on,
)

Found = tuple[Previous | None, Reason | None]
"""The turn to continue, or why there is none; neither at the beginning of a conversation."""


def items_of(params: ResponseCreateParams) -> list[InputItem]:
    """The conversation as items."""
    if isinstance(params.input, str):
        return [Message(role="user", content=params.input, type="message")]
    return params.input


def previous_of_items(
    params: ResponseCreateParams,
    messages: Sequence[JsonObject],
    settings: ConversionSettings,
) -> Found:
    """The turn that a Responses request continues; `messages` are what it was converted to."""
    items = items_of(params)
    last = last_with_tokens(items)
    if last is None:
        wrote = any(is_models_own(item) for item in items)
        return None, Reason.NO_IDS if wrote else None
    history = items[: last + 1]
    tokens = _tokens(items[last])
    continuity = continuity_on(items[last])
    said = to_messages(changed(params, {"input": history}), settings)
    if continuity is None or not continuity.seal:
        return Previous(tokens, len(said), sealed=False), None
    seal = _sealed_items(params, history, tokens)
    if seal != continuity.seal or list(messages[: len(said)]) != said:
        return None, Reason.EDITED
    return Previous(tokens, len(said)), None


def previous_of_messages(messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Found:
    """The turn that a chat request continues."""
    last = last_with_tokens(messages)
    if last is None:
        wrote = any(message.role == "assistant" for message in messages)
        return None, Reason.NO_IDS if wrote else None
    tokens = _tokens(messages[last])
    continuity = continuity_on(messages[last])
    if continuity is None or not continuity.seal:
        return Previous(tokens, last + 1, sealed=False), None
    try:
        seal = seal_messages(messages[: last + 1], tokens, tools=tools)
    except (TypeError, ValueError, OverflowError):  # lists that hold no numbers
        return None, Reason.EDITED
    if seal != continuity.seal:
        return None, Reason.EDITED
    return Previous(tokens, last + 1), None


def with_ids_of_items(
    messages: Sequence[JsonObject], params: ResponseCreateParams
) -> list[JsonDict]:
    """The messages that `params` were converted to, each turn of the model with its token ids."""
    turns = (list(turn) for is_own, turn in groupby(items_of(params), is_models_own) if is_own)
    carried = (next(filter(None, map(tokens_on, reversed(turn))), None) for turn in turns)
    return [
        {**message, **(_fields(next(carried, None)) if message["role"] == "assistant" else {})}
        for message in messages
    ]


def with_ids_of_messages(
    messages: Sequence[JsonObject], carriers: Sequence[ChatMessage]
) -> list[JsonDict]:
    """The messages with the token ids that `carriers`, the same ones as they came, hold."""
    pairs = zip(messages, carriers, strict=True)
    return [{**message, **_fields(tokens_on(carrier))} for message, carrier in pairs]


def _fields(tokens: TurnTokens | None) -> JsonDict:
    if tokens is None:
        return {}
    values = (tokens.prompt, tokens.generation, tokens.log_probs)
    return dict(zip(TOKEN_FIELDS, values, strict=True))


def _sealed_items(
    params: ResponseCreateParams, history: Sequence[InputItem], tokens: TurnTokens
) -> str:
    try:
        return seal_items(history, tokens, instructions=params.instructions, tools=params.tools)
    except (TypeError, ValueError, OverflowError):  # lists that hold no numbers
        return ""


def _tokens(carrier: Any) -> TurnTokens:
    tokens = tokens_on(carrier)
    if tokens is None:
        raise ValueError("an item without token ids has no tokens")
    return tokens
