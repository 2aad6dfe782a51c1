"""Find the last turn with token ids in a conversation, and check whether it can be continued."""

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
"""The turn to continue, or the reason why none can be. Both are None at the start of a
conversation."""


def items_of(params: ResponseCreateParams) -> list[InputItem]:
    """Return the conversation of a request as a list of items."""
    if isinstance(params.input, str):
        return [Message(role="user", content=params.input, type="message")]
    return params.input


def previous_of_items(
    params: ResponseCreateParams,
    messages: Sequence[JsonObject],
    settings: ConversionSettings,
) -> Found:
    """Return the turn that a Responses request continues. `messages`: the request's converted
    messages.
    """
    items = items_of(params)
    last = last_with_tokens(items)
    if last is None:
        wrote = any(is_models_own(item) for item in items)
        return None, Reason.NO_IDS if wrote else None
    history = items[: last + 1]
    tokens = _tokens(items[last])
    continuity = continuity_on(items[last])
    spoken_messages = to_messages(changed(params, {"input": history}), settings)
    if continuity is None or not continuity.seal:
        return Previous(tokens, len(spoken_messages), sealed=False), None
    seal = _sealed_items(params, history, tokens)
    if seal != continuity.seal or list(messages[: len(spoken_messages)]) != spoken_messages:
        return None, Reason.EDITED
    return Previous(tokens, len(spoken_messages)), None


def previous_of_messages(messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Found:
    """Return the turn that a chat request continues."""
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
    """Return the messages converted from `params`, each model turn with its token ids."""
    turns = (list(turn) for is_own, turn in groupby(items_of(params), is_models_own) if is_own)
    carried = (next(filter(None, map(tokens_on, reversed(turn))), None) for turn in turns)
    return [
        {**message, **(_fields(next(carried, None)) if message["role"] == "assistant" else {})}
        for message in messages
    ]


def with_ids_of_messages(
    messages: Sequence[JsonObject], carriers: Sequence[ChatMessage]
) -> list[JsonDict]:
    """Return the messages with the token ids of `carriers`, the same messages in their received
    form.
    """
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
