"""What a provider's refusal means: to the rollout, to its row, or to the whole run.

The one place that reads providers' sentences. Wordings were taken from captured answers of
vLLM and llama.cpp where there were any, else from the projects' own messages.
"""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from palestra.errors import (
    CallError,
    CredentialsRejected,
    Evidence,
    Hop,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    excerpt,
)
from palestra.transport import HttpReply


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """The conversation, or the answer asked for, does not fit the model's context.

    Not an error: the rollout ends here, is scored on what it has, and counts as truncated.
    """

    sentence: str
    hop: Hop


_OVERFLOW = re.compile(
    r"context[ _]?(?:length|window|size|limit)"
    r"|maximum (?:model|prompt) length"  # vLLM's decoder prompt; xAI
    r"|max_model_len|max_seq_len|max_num_tokens"  # vLLM; TensorRT-LLM
    r"|max_(?:completion_|new_)?tokens\b.*(?:too large|cannot be greater|exceed|at least 1, got|<=)"
    r"|(?:prompt|input) is too long"  # Anthropic; Bedrock
    r"|(?:input|prompt) token count .*exceeds"  # Gemini
    r"|`inputs` must have less than \d+ tokens"  # TGI
    r"|too many tokens: "  # Cohere
    r"|reduce the length of the (?:messages|input|prompt)",
    re.IGNORECASE | re.DOTALL,
)

_TOO_LONG_AN_ANSWER = re.compile(r"supports at most \d+ completion tokens", re.IGNORECASE)
"""OpenAI, of a `max_tokens` that the model never allows, however short the conversation."""

_VALIDATION = re.compile(r"^\s*\d+ validation error")
"""How vLLM begins when a field has the wrong type; it then quotes the request, which may say
anything."""

_TOOLS = re.compile(r"tool|function|schema|grammar|response_format|regex", re.IGNORECASE)

_NO_MODEL = re.compile(r"invalid model name passed|model_not_found", re.IGNORECASE)
"""LiteLLM's proxy says so with status 400."""

_ROLES = re.compile(
    r"roles must alternate|unexpected (?:message )?role|role .*not supported"
    r"|system (?:message|role).*(?:beginning|first|not supported)",
    re.IGNORECASE,
)
"""What chat templates say of an order of messages that they cannot render."""

_MEND_TOOLS = "mend the tools of this row; the endpoint says what it does not accept"

_MEND_ROLES = (
    "the model's chat template cannot render this order of roles; for a developer message set "
    "replace_developer_role_with_system: true"
)

_BUSY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_LONGEST_SENTENCE = 500


def provider_sentence(body: bytes) -> str:
    """The provider's own sentence in an error body, else the body's beginning."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return excerpt(body)[:_LONGEST_SENTENCE].strip()
    return _sentence(decoded) or excerpt(body)[:_LONGEST_SENTENCE]


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
        if found := _sentence(value):
            return found
    return ""


def _code(body: bytes) -> str:
    """The machine-readable part of an error body, `type` and `code` together."""
    try:
        error = orjson.loads(body)["error"]
        return f"{error.get('type')} {error.get('code')}"
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ""


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


def is_context_overflow(sentence: str, code: str = "") -> bool:
    """Whether a refusal means that the conversation does not fit, in any known wording."""
    if _VALIDATION.match(sentence) or _TOO_LONG_AN_ANSWER.search(sentence):
        return False
    return bool(_OVERFLOW.search(sentence) or _OVERFLOW.search(code))


def classify(reply: HttpReply, *, server: str, url: str, model: str) -> ContextOverflow | CallError:
    """What an answer of status 300 or more means. The body is kept word for word."""
    status = reply.status
    sentence = provider_sentence(reply.body)
    hop = Hop(server, url, status, excerpt(reply.body))
    if status in {400, 413, 422} and is_context_overflow(sentence, _code(reply.body)):
        return ContextOverflow(sentence, hop)
    kind, hint = _failure(status, sentence, reply)
    about = f" for model {model!r}" if kind is ModelNotServed else ""
    return kind(
        f"{server}: {url} answered {status}{about}: {sentence}",
        hint=hint,
        evidence=Evidence(hops=(hop,)),
        status=status,
    )


def _failure(status: int, sentence: str, reply: HttpReply) -> tuple[type[CallError], str]:
    """The class and the hint; the order of the cases matters."""
    if status in {401, 402, 403}:
        return CredentialsRejected, "check the API key of this model server, and what it may do"
    if status == HTTPStatus.NOT_FOUND or _NO_MODEL.search(sentence):
        hint = "is the model listed by GET <base_url>/models, and does base_url end in /v1?"
        return ModelNotServed, hint
    # llama.cpp answers 500 to a malformed tool.
    if status == 500 and "failed to parse tools" in sentence.lower():
        return ModelRejectedRow, _MEND_TOOLS
    if status >= 500 or status in _BUSY:
        return ModelError, "the endpoint is overloaded or broken; see its own log"
    if status < 400:
        return ModelError, f"set base_url to where it sends us: {reply.headers.get('location')}"
    return ModelRejectedRow, _what_to_mend(status, sentence)


def _what_to_mend(status: int, sentence: str) -> str:
    if _ROLES.search(sentence):
        return _MEND_ROLES
    return _MEND_TOOLS if status in {400, 422} and _TOOLS.search(sentence) else ""
