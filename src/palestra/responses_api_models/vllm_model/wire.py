"""The paths, requests and answers of vLLM that concern token ids. Pure functions."""

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
"""The parameters that request token ids and log probs from a chat completion."""

_RENDERING = (
    "model", "messages", "tools", "tool_choice", "documents", "reasoning_effort",
    "chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message",
    "add_special_tokens", "media_io_kwargs", "mm_processor_kwargs",
)  # fmt: skip
"""The request fields that determine the prompt. Only these are sent to `/tokenize`."""


class LogProb(msgspec.Struct):
    """The id and the log prob of one sampled token."""

    token_id: int
    logprob: float | None = None
    """The log prob; None when the endpoint has no number for it."""


class LogProbs(msgspec.Struct):
    """The log probs of all sampled tokens."""

    content: list[LogProb] = []


class GeneratedChoice(msgspec.Struct):
    """The sampled tokens, and why the generation ended. `stop_reason`: the token or text that ended
    it.
    """

    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: LogProbs | None = None


class Generated(msgspec.Struct):
    """An answer of `/inference/v1/generate`, with only the fields that Palestra reads."""

    choices: list[GeneratedChoice]
    request_id: str = ""
    model: str | None = None
    created: float | None = None
    usage: UpstreamUsage | None = None
    prompt_token_ids: list[int] | None = None
    error: Any = None


decode_generated = completion_decoder(Generated)


def to_tokenize(request: JsonObject) -> JsonDict:
    """Return the body for `/tokenize` that renders the prompt of a chat request.

    Documents are sent as a template argument: vLLM passes a chat's documents to its template, but
    `/tokenize` has no field for them.
    """
    body = {name: request[name] for name in _RENDERING if name in request}
    if documents := request.get("documents"):
        kwargs = request.get("chat_template_kwargs") or {}
        body["chat_template_kwargs"] = {**kwargs, "documents": documents}
    return body


def to_parse(
    request: JsonObject, generation: Generated, prompt: list[int], generated_ids: list[int]
) -> JsonDict:
    """Return the request that makes the endpoint's own parsers read the generated tokens of a chat
    request.

    `generated_ids`: the generated ids, without a token that only ends the turn.
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
    """Decode a rendered chat with its `token_ids`. Raises the same errors as `read_ids`."""
    rendered: JsonDict = orjson.loads(answer)
    if not isinstance(rendered["token_ids"], list):
        raise TypeError("`token_ids` is not a list")
    return rendered


def read_ids(answer: bytes) -> list[int]:
    """Decode the ids in an answer of `/tokenize`. Raises `ValueError`, `LookupError` or
    `TypeError`.
    """
    return [int(token) for token in orjson.loads(answer)["tokens"]]


def without_stop(choice: GeneratedChoice) -> list[int]:
    """Return the tokens that are text: without a token that ends the turn, but with a stop string."""
    ends_it = choice.finish_reason == "stop" and not isinstance(choice.stop_reason, str)
    return choice.token_ids[:-1] if ends_it else choice.token_ids


def before_stop(content: Any, stop: str) -> Any:
    """Cut the text at the stop string, as vLLM does for a chat."""
    return content.partition(stop)[0] if isinstance(content, str) else content
