"""What a provider's refusal means: to the rollout, to its row, or to the whole run.

- The context is full: the rollout ends here and is scored, as truncated; where the model never
  began, its row does not fit (see `unread`).
- What this row says or asks cannot be served: this row fails, and no retry is made.
- The key, the model's name, the path or a setting is wrong: no row can be served, the run ends.
- The endpoint is busy or broken: the rollout fails, and may be tried again.

Statuses decide where they can; `wordings` reads the sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from palestra.errors import (
    CallError,
    CredentialsRejected,
    Evidence,
    Hop,
    Hopeless,
    KnownCause,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    WrongSetting,
    excerpt,
)
from palestra.responses_api_models.chat.wordings import (
    asks_for_tool_parser,
    is_about_content,
    is_about_credit,
    is_about_roles,
    is_about_tools,
    is_context_overflow,
    is_too_long_an_answer,
    is_web_page,
    lacks_credit,
    lacks_item,
    lacks_key,
    lacks_model,
    lacks_provider,
    lacks_route,
    lacks_tools,
)
from palestra.transport import HttpReply


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """The conversation, or the answer asked for, does not fit the model's context.

    Where the model had begun it is no error: the rollout ends here, is scored on what it has, and
    counts as truncated.
    """

    sentence: str
    hop: Hop
    begun: bool | None = None
    """Whether a model has answered in this rollout before; None where that is not known."""


_MAY_BE_FULL = frozenset({400, 403, 413, 422})
"""Statuses with which a full context was seen; 403 is Together's."""

_MEND_TOOLS = "mend the tools of this row; the endpoint says what it does not accept"

_MEND_ROLES = (
    "the model's chat template cannot render this order of roles; for a developer message set "
    "replace_developer_role_with_system: true"
)

_FILTERED = (
    "what this row says was refused, not the key: leave the row out, or ask another provider"
)

_TOO_LONG_AN_ANSWER = "lower max_output_tokens: the endpoint gives no longer answers, to any prompt"

_NO_TOOLS = (
    "rows with tools need a model that takes them: name another one, or start vLLM with a tool "
    "parser (`palestra serve-model vllm` does)"
)

_NO_PROVIDER = (
    "the router knows the model, and has nobody who serves it so: name another model, or change "
    "the parameters, or the providers that the account allows"
)

_NO_MODEL = "is the model listed by GET <base_url>/models, and does base_url end in /v1?"

_NO_RESPONSES = (
    "does openai_base_url end in /v1, and does this endpoint speak the Responses API? "
    "One that speaks Chat Completions only is vllm_model's"
)

_NO_ROUTE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})

_BUSY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource"})
"""vLLM says `abort` of requests that it dropped (paused, shut down); some routers say `error`,
DeepSeek that it had no room."""

_LONGEST_SENTENCE = 500


def provider_sentence(body: bytes) -> str:
    """The provider's own sentence in an error body, else the body's beginning."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        # A page of HTML, most often: in one line.
        return " ".join(excerpt(body).split())[:_LONGEST_SENTENCE]
    return _sentence(_unwrapped(decoded)) or excerpt(body)[:_LONGEST_SENTENCE]


def _unwrapped(decoded: Any) -> Any:
    """Gemini puts its error into a list."""
    return decoded[0] if isinstance(decoded, list) and len(decoded) == 1 else decoded


def _sentence(decoded: Any) -> str:
    if isinstance(decoded, str):
        return decoded
    if not isinstance(decoded, dict):
        return ""
    for key in ("error", "message", "detail"):
        value = decoded.get(key)
        if isinstance(value, list) and value:
            # FastAPI's validation errors: the first one stands for all.
            value = value[0].get("msg") if isinstance(value[0], dict) else value[0]
        if sentence := _sentence(value):
            return sentence
    return ""


def _code(body: bytes) -> str:
    """The machine-readable part of an error body, `type` and `code` together."""
    try:
        decoded = _unwrapped(orjson.loads(body))
    except orjson.JSONDecodeError:
        return ""
    error = decoded.get("error") if isinstance(decoded, dict) else None
    fields = error if isinstance(error, dict) else decoded
    return f"{fields.get('type')} {fields.get('code')}" if isinstance(fields, dict) else ""


def failure_status(body: bytes) -> int | None:
    """The status that a body of status 200 means by its `error`; None where it has none.

    Routers such as OpenRouter have answered 200 by the time that the provider behind them fails.
    """
    try:
        error = orjson.loads(body)["error"]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return None
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else HTTPStatus.BAD_GATEWAY.value


def classify(reply: HttpReply, *, server: str, url: str, model: str) -> ContextOverflow | CallError:
    """What an answer of status 300 or more means. The body is kept word for word."""
    status = reply.status
    sentence, code = provider_sentence(reply.body), _code(reply.body)
    hop = Hop(server, url, status, excerpt(reply.body))
    if status in _MAY_BE_FULL and is_context_overflow(sentence, code):
        return ContextOverflow(sentence, hop)
    kind, hint = _failure(status, sentence, code, reply)
    if hint == _NO_MODEL and url.endswith("/responses") and model not in sentence:
        hint = _NO_RESPONSES
    about = f" for model {model!r}" if issubclass(kind, ModelNotServed | WrongSetting) else ""
    return kind(
        f"{server}: {url} answered {status}{about}: {sentence}",
        hint=hint,
        cause=cause_of(kind, status, sentence, code),
        evidence=Evidence(hops=(hop,)),
        status=status,
    )


def cause_of(
    kind: type[CallError], status: int, sentence: str, code: str = ""
) -> KnownCause | None:
    """What the endpoint's words say went wrong; None where the class says as much."""
    if asks_for_tool_parser(sentence):
        # A wrong setting of some endpoints, a refused row to others.
        return KnownCause.NO_TOOLS
    if not issubclass(kind, Hopeless):
        return None
    # A page of HTML, or a path that there is not, says nothing of keys and models.
    no_route = issubclass(kind, ModelNotServed) and status in _NO_ROUTE and lacks_route(sentence)
    if no_route or is_web_page(sentence):
        return KnownCause.NO_OPENAI_ENDPOINT
    unpaid = (
        status == HTTPStatus.PAYMENT_REQUIRED or lacks_credit(code) or is_about_credit(sentence)
    )
    return KnownCause.NO_CREDIT if unpaid else None


def _failure(
    status: int, sentence: str, code: str, reply: HttpReply
) -> tuple[type[CallError], str]:
    """The class and the hint; the order of the cases matters."""
    if failure := _hopeless(status, sentence, code):
        return failure
    # llama.cpp answers 500 to a malformed tool.
    if status == 500 and "failed to parse tools" in sentence.lower():
        return ModelRejectedRow, _MEND_TOOLS
    if status >= 500 or status in _BUSY:
        return ModelError, "the endpoint is overloaded or broken; see its own log"
    if status < 400:
        return ModelError, f"set base_url to where it sends us: {reply.headers.get('location')}"
    return ModelRejectedRow, _what_to_mend(status, sentence, code)


def _hopeless(status: int, sentence: str, code: str) -> tuple[type[Hopeless], str] | None:
    """What every other row would be told as well; None where it is about this one, or passes."""
    if status == HTTPStatus.FORBIDDEN and is_about_content(sentence, code):
        return None
    unkeyed = status in {401, 402, 403} or (status == 400 and lacks_key(sentence))
    if unkeyed or (status == 429 and lacks_credit(code)):
        return CredentialsRejected, "check the API key of this model server, and what it may do"
    if lacks_tools(sentence):
        return WrongSetting, _NO_TOOLS
    not_found = status == HTTPStatus.NOT_FOUND and not lacks_item(sentence)
    if not_found or lacks_model(sentence, code):
        return ModelNotServed, _NO_PROVIDER if lacks_provider(sentence) else _NO_MODEL
    return None


def _what_to_mend(status: int, sentence: str, code: str) -> str:
    if is_about_content(sentence, code):
        return _FILTERED
    if lacks_item(sentence):
        return "mend what this row refers to; the endpoint has no such thing"
    if is_too_long_an_answer(sentence):
        return _TOO_LONG_AN_ANSWER
    if is_about_roles(sentence):
        return _MEND_ROLES
    return _MEND_TOOLS if status in {400, 422} and is_about_tools(sentence) else ""


def check_whole(finish_reasons: Sequence[str | None], *, model: str, body: bytes = b"") -> None:
    """Raises `ModelError` for an answer without choices, or with one that was broken off.

    `body`: the whole answer, in which some providers say why.
    """
    if not finish_reasons:
        raise ModelError(f"{model} answered without any choice")
    for reason in finish_reasons:
        if reason in _BROKEN_OFF:
            provider_words = _said_of_a_choice(body)
            raise ModelError(
                f"{model} broke its answer off (finish_reason {reason!r}){provider_words and ': '}{provider_words}",
                hint="its endpoint was stopped or paused meanwhile; see its own log",
                cause=KnownCause.ANSWER_BROKEN_OFF,
            )


def _said_of_a_choice(body: bytes) -> str:
    """Why a choice was broken off, in the provider's words: OpenRouter puts them beside it."""
    try:
        choices = orjson.loads(body)["choices"]
        return next(filter(None, (_sentence(choice.get("error")) for choice in choices)), "")
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ""
