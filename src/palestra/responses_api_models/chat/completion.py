"""Chat completions for callers of `/v1/chat/completions`."""

import time

import orjson

from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.unread import refuse_unread
from palestra.schema import ChatChoice, ChatCompletion, ChatCreateParams, ChatMessage
from palestra.transport import new_id


def as_it_came(answer: bytes, *, model: str) -> ChatCompletion:
    """A completion with all its fields; what it must have and lacks, or has as null, is put in.

    Raises ValueError when it is none.
    """
    plain = orjson.loads(answer)
    if isinstance(plain, dict):
        plain["id"] = plain.get("id") or new_id("chatcmpl-")
        created = plain.get("created")
        plain["created"] = int(created if isinstance(created, int | float) else time.time())
        plain["model"] = plain.get("model") or model
        plain["object"] = "chat.completion"
    return ChatCompletion.model_validate(plain)


def overflow_completion(
    asked: ChatCreateParams, *, model: str, overflow: ContextOverflow
) -> ChatCompletion:
    """The empty, truncated completion of a model whose context cannot hold the chat any more.

    Raises PromptTooLong where it never could. What the endpoint said is kept beside the reason, as
    `provider_message`.
    """
    refuse_unread(overflow, asked.messages)
    message = ChatMessage(role="assistant", content="")
    choice = ChatChoice(index=0, message=message, finish_reason="length")
    choice.provider_message = overflow.sentence  # type: ignore[attr-defined]  # beside what is declared
    return ChatCompletion(
        id=new_id("chatcmpl-"),
        created=0,
        model=model,
        choices=[choice],
    )
