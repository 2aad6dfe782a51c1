"""A turn as a chat completion, for callers of `/v1/chat/completions`."""

import time
from typing import Any

import msgspec

from palestra.responses_api_models.chat import check_whole
from palestra.responses_api_models.vllm_model.turns import Turn
from palestra.schema import ChatChoice, ChatCompletion, ChatMessage, TurnTokens, UpstreamMessage
from palestra.transport import new_id


def chat_answer(turn: Turn, *, model: str, with_log_probs: bool) -> ChatCompletion:
    """The completion that a caller gets, without the token ids yet.

    Raises `ModelError` for one that the endpoint broke off.
    """
    made = turn.completion
    check_whole([each.finish_reason for each in made.choices], model=model)
    choice = made.choices[0]
    message = _message(choice.message)
    called = bool(message.tool_calls) and choice.finish_reason == "stop"
    return ChatCompletion(
        id=made.id or new_id("chatcmpl-"),
        created=int(made.created or time.time()),
        model=made.model or model,
        choices=[
            ChatChoice(
                index=0,
                message=message,
                finish_reason="tool_calls" if called else choice.finish_reason,
                logprobs=_log_probs(turn.tokens) if with_log_probs else None,
            )
        ],
        usage=None if made.usage is None else msgspec.to_builtins(made.usage),
    )


def _message(made: UpstreamMessage) -> ChatMessage:
    calls: list[dict[str, Any]] = [
        {
            "id": call.id or new_id("call_"),
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in made.tool_calls or ()
    ]
    message = ChatMessage(role="assistant", content=made.content)
    if calls:
        message.tool_calls = calls
    if reasoning := made.reasoning_content or made.reasoning:
        message.reasoning_content = reasoning
    return message


def _log_probs(tokens: TurnTokens) -> dict[str, Any]:
    # There may be too few: a trainer wants to hear of that itself.
    pairs = zip(tokens.generation, tokens.log_probs, strict=False)
    content: list[dict[str, Any]] = [
        {"token": f"token_id:{token}", "logprob": value, "bytes": None, "top_logprobs": []}
        for token, value in pairs
    ]
    return {"content": content}
