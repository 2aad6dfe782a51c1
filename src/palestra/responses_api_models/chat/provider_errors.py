"""Classify a provider's refusal: it ends the rollout, fails its row, or ends the whole run.

- The context is full: the rollout ends and is scored as truncated. If the model never began to
  answer, the row does not fit (see `unread`).
- The endpoint cannot serve this row: the row fails, without a retry.
- The key, the model's name, the path or a setting is wrong: no row can be served, the run ends.
- The endpoint is busy or broken: the rollout fails and may be retried.

The status decides if it can; otherwise `wordings` reads the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from palestra.errors import (
    CallError,
    CallEvidence,
    CredentialsRejected,
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
    """The result of a call whose conversation, or requested answer, does not fit the model's
    context.

    When the model had already answered in the rollout, this is no error: the rollout ends, is
    scored as it is, and counts as truncated.
    """

    sentence: str
    hop: Hop
    begun: bool | None = None
    """Whether a model has already answered in this rollout; None if unknown."""


_MAY_BE_FULL = frozenset({400, 403, 413, 422})
"""The statuses that providers use for a full context; 403 is used by Together."""

_MEND_TOOLS = "correct the tools of this row; the endpoint's message names the problem"

_MEND_ROLES = (
    "the model's chat template cannot render this order of roles; for a developer message set "
    "replace_developer_role_with_system: true"
)

_FILTERED = (
    "the provider rejected the content of this row, not the key: leave the row out, or use "
    "another provider"
)

_TOO_LONG_AN_ANSWER = "lower max_output_tokens: it is above the endpoint's limit for any prompt"

_NO_TOOLS = (
    "rows with tools need a model that takes them: name another one, or start vLLM with a tool "
    "parser (`palestra serve-model vllm` does)"
)

_CHECK_KEY = "check the API key that is sent, and its permissions"

_PAY = "the account behind the API key has no credit: pay for more, or give another key"

_NO_PROVIDER = (
    "the router knows the model, but has no provider for it with these parameters: choose "
    "another model, or change the parameters or the providers that the account allows"
)

_NO_MODEL = "is the model listed by GET <base_url>/models, and does base_url end in /v1?"

_OTHER_MODEL = "name a model that GET <base_url>/models lists"
"""For an endpoint that knows no model of this name, so that its URL is right."""

_NO_RESPONSES = (
    "does openai_base_url end in /v1, and does this endpoint speak the Responses API? "
    "One that speaks Chat Completions only is vllm_model's"
)

_NO_ROUTE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})

_BUSY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource"})
"""The finish reasons of a broken-off answer.

vLLM uses `abort` for requests that it dropped (paused, shut down). Some routers use `error`.
DeepSeek uses `insufficient_system_resource`.
"""

_LONGEST_SENTENCE = 500


def provider_sentence(body: bytes) -> str:
    """Return the provider's error message from an error body, or the body's beginning if there is
    none.
    """
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        # A page of HTML, most often: in one line.
        return " ".join(excerpt(body).split())[:_LONGEST_SENTENCE]
    return _sentence(_unwrapped(decoded)) or excerpt(body)[:_LONGEST_SENTENCE]


def _unwrapped(decoded: Any) -> Any:
    """Return the entry of a list with one entry, as Gemini wraps its error; else `decoded` itself."""
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
    """Return the machine-readable part of an error body: `type` and `code`, joined."""
    try:
        decoded = _unwrapped(orjson.loads(body))
    except orjson.JSONDecodeError:
        return ""
    error = decoded.get("error") if isinstance(decoded, dict) else None
    fields = error if isinstance(error, dict) else decoded
    return f"{fields.get('type')} {fields.get('code')}" if isinstance(fields, dict) else ""


def failure_status(body: bytes) -> int | None:
    """Return the error status in a body that came with status 200; None when the body has no
    `error`.

    Routers such as OpenRouter have already sent 200 when the provider behind them fails.
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
    """Return the error, or the overflow, for an answer of status 300 or more. The body is kept
    verbatim.
    """
    status = reply.status
    sentence, code = provider_sentence(reply.body), _code(reply.body)
    hop = Hop(server, url, status, excerpt(reply.body))
    if status in _MAY_BE_FULL and is_context_overflow(sentence, code):
        return ContextOverflow(sentence, hop)
    kind, hint = _failure(status, sentence, code, reply)
    if hint == _NO_MODEL and model in sentence:
        hint = _OTHER_MODEL
    elif hint == _NO_MODEL and url.endswith("/responses"):
        hint = _NO_RESPONSES
    about = f" for model {model!r}" if issubclass(kind, ModelNotServed | WrongSetting) else ""
    return kind(
        f"{server}: {url} answered {status}{about}: {sentence}",
        hint=hint,
        cause=cause_of(kind, status, sentence, code),
        evidence=CallEvidence(hops=(hop,)),
        status=status,
    )


def cause_of(
    kind: type[CallError], status: int, sentence: str, code: str = ""
) -> KnownCause | None:
    """Return the cause that the endpoint's message shows; None when `kind` already says as much."""
    if asks_for_tool_parser(sentence):
        # A wrong setting of some endpoints, a refused row to others.
        return KnownCause.NO_TOOLS
    if not issubclass(kind, Hopeless):
        return None
    # A page of HTML, or a path that there is not, says nothing of keys and models.
    no_route = issubclass(kind, ModelNotServed) and status in _NO_ROUTE and lacks_route(sentence)
    if no_route or is_web_page(sentence):
        return KnownCause.NO_OPENAI_ENDPOINT
    return KnownCause.NO_CREDIT if _is_unpaid(status, sentence, code) else None


def _is_unpaid(status: int, sentence: str, code: str) -> bool:
    return status == HTTPStatus.PAYMENT_REQUIRED or lacks_credit(code) or is_about_credit(sentence)


def _failure(
    status: int, sentence: str, code: str, reply: HttpReply
) -> tuple[type[CallError], str]:
    """Return the error class and the hint. The order of the cases matters."""
    if failure := _hopeless(status, sentence, code):
        return failure
    # llama.cpp answers 500 to a malformed tool.
    if status == 500 and "failed to parse tools" in sentence.lower():
        return ModelRejectedRow, _MEND_TOOLS
    if status >= 500 or status in _BUSY:
        return ModelError, "the endpoint is overloaded or broken; read its log"
    if status < 400:
        return ModelError, (
            f"set base_url to the address it redirects to: {reply.headers.get('location')}"
        )
    return ModelRejectedRow, _what_to_mend(status, sentence, code)


def _hopeless(status: int, sentence: str, code: str) -> tuple[type[Hopeless], str] | None:
    """Return the class and hint of a refusal that every other row would get too.

    None when the refusal is about this row only, or is temporary.
    """
    if status == HTTPStatus.FORBIDDEN and is_about_content(sentence, code):
        return None
    unkeyed = status in {401, 402, 403} or (status == 400 and lacks_key(sentence))
    if unkeyed or (status == 429 and lacks_credit(code)):
        return CredentialsRejected, _PAY if _is_unpaid(status, sentence, code) else _CHECK_KEY
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
        return "correct the ids or files that this row refers to; the endpoint does not have them"
    if is_too_long_an_answer(sentence):
        return _TOO_LONG_AN_ANSWER
    if is_about_roles(sentence):
        return _MEND_ROLES
    return _MEND_TOOLS if status in {400, 422} and is_about_tools(sentence) else ""


def check_whole(finish_reasons: Sequence[str | None], *, model: str, body: bytes = b"") -> None:
    """Raise `ModelError` for an answer without choices, or with a choice that was broken off.

    `body`: the whole answer, in which some providers give the reason.
    """
    if not finish_reasons:
        raise ModelError(f"{model} answered without any choice")
    for reason in finish_reasons:
        if reason in _BROKEN_OFF:
            provider_words = _said_of_a_choice(body)
            raise ModelError(
                f"{model} stopped in the middle of its answer (finish_reason "
                f"{reason!r}){provider_words and ': '}{provider_words}",
                hint="the endpoint was stopped or paused during the request; read its log",
                cause=KnownCause.ANSWER_BROKEN_OFF,
            )


def _said_of_a_choice(body: bytes) -> str:
    """Return the provider's message about a broken-off choice; OpenRouter puts it in the choice's
    `error`.
    """
    try:
        choices = orjson.loads(body)["choices"]
        return next(filter(None, (_sentence(choice.get("error")) for choice in choices)), "")
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ""
