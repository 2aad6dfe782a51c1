"""The paths, requests and answers of vLLM that have to do with token ids. Pure."""

from typing import Any

import msgspec
import orjson

from palestra.schema import JsonDict, JsonObject, UpstreamUsage, completion_decoder

CHAT, RENDER, PARSE = (
    "/chat/completions",
    "/chat/completions/render",
    "/chat/completions/derender",
)
TOKENIZE, GENERATE = "../tokenize", "../inference/v1/generate"
"""At the server's root."""

ASKED = {"logprobs": True, "return_tokens_as_token_ids": True, "return_token_ids": True}
"""What a chat completion is asked for."""

_RENDERING = (
    "model", "messages", "tools", "tool_choice", "documents", "reasoning_effort",
    "chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message",
    "add_special_tokens", "media_io_kwargs", "mm_processor_kwargs",
)  # fmt: skip
"""What decides about a prompt: all that `/tokenize` is told of a request."""


class LogProb(msgspec.Struct):
    """Of one token that was sampled."""

    token_id: int
    logprob: float | None = None
    """None where the endpoint has none that is a number."""


class LogProbs(msgspec.Struct):
    """Of all tokens that were sampled."""

    content: list[LogProb] = []


class GeneratedChoice(msgspec.Struct):
    """What was sampled, and why it ended. `stop_reason` is a token or a text that ended it."""

    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: LogProbs | None = None


class Generated(msgspec.Struct):
    """What `/inference/v1/generate` answers, reduced to what is read here."""

    choices: list[GeneratedChoice]
    request_id: str = ""
    model: str | None = None
    created: float | None = None
    usage: UpstreamUsage | None = None
    prompt_token_ids: list[int] | None = None
    error: Any = None


decode_generated = completion_decoder(Generated)


def to_tokenize(request: JsonObject) -> JsonDict:
    """The body for `/tokenize` that renders the prompt of a chat request.

    vLLM gives a chat's documents to its template, and has no field for them here.
    """
    body = {name: request[name] for name in _RENDERING if name in request}
    if documents := request.get("documents"):
        kwargs = request.get("chat_template_kwargs") or {}
        body["chat_template_kwargs"] = {**kwargs, "documents": documents}
    return body


def to_parse(
    request: JsonObject, generation: Generated, prompt: list[int], generated_ids: list[int]
) -> JsonDict:
    """The body that has the endpoint's own parsers read what was generated for a chat request.

    generated_ids: the ids that were generated, without one that only ends the turn.
    """
    choice = generation.choices[0]
    parts = {
        "index": 0,
        "token_ids": generated_ids,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }
    return {
        "model": request["model"],
        "chat_request": request,
        "prompt_token_ids": prompt,
        "prompt_tokens": len(prompt),
        "generate_response": {
            "request_id": generation.request_id,
            "prompt_token_ids": prompt,
            "choices": [parts],
        },
    }


def read_rendered(answer: bytes) -> JsonDict:
    """A rendered chat, with its `token_ids`. Raises as `read_ids` does."""
    rendered: JsonDict = orjson.loads(answer)
    if not isinstance(rendered["token_ids"], list):
        raise TypeError("`token_ids` is no list")
    return rendered


def read_ids(answer: bytes) -> list[int]:
    """The ids that `/tokenize` answers with. Raises `ValueError`, `LookupError` or `TypeError`."""
    return [int(token) for token in orjson.loads(answer)["tokens"]]


def without_stop(choice: GeneratedChoice) -> list[int]:
    """The tokens that are text: a token that ends the turn is none, a stop string is."""
    ends_it = choice.finish_reason == "stop" and not isinstance(choice.stop_reason, str)
    return choice.token_ids[:-1] if ends_it else choice.token_ids


def before_stop(content: Any, stop: str) -> Any:
    """As vLLM cuts a chat's text at a stop string."""
    return content.partition(stop)[0] if isinstance(content, str) else content
