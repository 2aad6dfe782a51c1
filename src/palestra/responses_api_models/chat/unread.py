"""Handle a full context: find out whether the model had begun to answer or never read the prompt.

If it had begun, the rollout is scored as it is, as truncated. If the prompt never fitted, no model
has read it and there is nothing to score.
"""

import re
import time
from collections.abc import Iterable
from typing import Any

import orjson

from palestra.errors import CallEvidence, ModelError, PromptTooLong
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.wordings import is_spent_on_an_answer
from palestra.schema import ChatChoice, ChatCompletion, ChatCreateParams, ChatMessage, model_turns
from palestra.transport import CallContext, current_call, new_id

_NUMBER = r"(\d[\d,]*)"
_LIMIT = re.compile(
    rf"(?:context (?:length|size|window)|max_model_len|maximum (?:model|prompt|input) length)"
    rf"[^\d.;]{{0,30}}{_NUMBER}"
    rf"|> {_NUMBER} maximum|(?:number of tokens|length) allowed \({_NUMBER}"
    rf"|maximum allowed length \({_NUMBER}|with {_NUMBER} maximum",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    rf"request \({_NUMBER} tokens\)|too long: {_NUMBER}|token count \({_NUMBER}\)"
    rf"|\({_NUMBER} (?:tokens )?in the (?:messages|prompt)|{_NUMBER} of text input"
    rf"|(?:resulted in|contains?|request has|you passed) (?:at least )?{_NUMBER} (?:input )?tokens"
    rf"|(?:prompt|input) \(?(?:of )?(?:length )?(?:of )?\(?{_NUMBER}",
    re.IGNORECASE,
)


def refuse_unread(overflow: ContextOverflow, conversation: Iterable[Any]) -> None:
    """Raise PromptTooLong when no model has answered in this rollout before.

    `conversation`: the items or messages of the request. When the rollout is not known, they
    decide: model turns beyond those of the row were generated in the rollout.

    For a judge, an overflow always raises an error, because there is no verdict.
    """
    call = current_call()
    spent = is_spent_on_an_answer(overflow.sentence)
    if call.in_environment:
        if spent:
            raise _no_room(overflow)
    elif spent or _has_begun(overflow, conversation, call):
        return
    raise PromptTooLong(
        f"{overflow.hop.server}: {_measured(overflow.sentence)}: {overflow.sentence}",
        hint="leave such rows out, or shorten them; or serve the model with a longer context, or "
        "lower max_output_tokens",
        evidence=CallEvidence(hops=(overflow.hop,)),
        status=overflow.hop.status,
    )


def _has_begun(overflow: ContextOverflow, conversation: Iterable[Any], call: CallContext) -> bool:
    if overflow.begun is not None:
        return overflow.begun
    return model_turns(conversation) > call.written_turns


def _no_room(overflow: ContextOverflow) -> ModelError:
    """Return the error for an environment's model that read its prompt but reached its limit before
    it answered.
    """
    return ModelError(
        f"{overflow.hop.server}: the model reached its limit before it had answered: "
        f"{overflow.sentence}",
        hint="raise max_output_tokens in the requests of the environment",
        evidence=CallEvidence(hops=(overflow.hop,)),
        status=overflow.hop.status,
    )


def _measured(sentence: str) -> str:
    """Return a text with the sizes of the prompt and the context, if the endpoint's message
    contains them.
    """
    prompt, limit = _first(_PROMPT, sentence), _first(_LIMIT, sentence)
    if prompt is None or limit is None:
        return "the prompt does not fit into the model's context"
    if prompt <= limit:
        return (
            f"the prompt has {prompt:,} tokens, which is too much together with the answer asked "
            f"for: the model takes {limit:,}"
        )
    return f"the prompt has {prompt:,} tokens, the model takes {limit:,}"


def _first(pattern: re.Pattern[str], sentence: str) -> int | None:
    match = pattern.search(sentence)
    digits = next(filter(None, match.groups()), "") if match else ""
    return int(digits.replace(",", "")) if digits else None


def as_it_came(answer: bytes, *, model: str) -> ChatCompletion:
    """Decode a completion and keep all its fields. Required fields that are missing or null are
    filled in.

    Raises ValueError: the answer is not a completion.
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
    chat_params: ChatCreateParams, *, model: str, overflow: ContextOverflow
) -> ChatCompletion:
    """Return the empty, truncated completion for a chat that no longer fits the model's context.

    The choice's `provider_message` is the endpoint's message. Raises PromptTooLong: no model has
    answered in this rollout.
    """
    refuse_unread(overflow, chat_params.messages)
    message = ChatMessage(role="assistant", content="")
    choice = ChatChoice(index=0, message=message, finish_reason="length")
    choice.provider_message = overflow.sentence  # type: ignore[attr-defined]  # beside what is declared
    return ChatCompletion(
        id=new_id("chatcmpl-"),
        created=0,
        model=model,
        choices=[choice],
    )
