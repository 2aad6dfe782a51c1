"""Convert an answer of Anthropic's Messages to a Responses API response. Pure functions."""

import time
from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from palestra.responses_api_models.chat import new_response
from palestra.schema import (
    CONTEXT_FULL,
    IncompleteDetails,
    JsonDict,
    JsonObject,
    OutputItem,
    Response,
    ResponseCreateParams,
    Usage,
    block_of_part,
    cached_tokens,
    thought_in,
)
from palestra.transport import new_id

_OUTPUT: TypeAdapter[list[OutputItem]] = TypeAdapter(list[OutputItem])
_CONTEXT_FULL: Final = "model_context_window_exceeded"
_INCOMPLETE: Final = {
    "max_tokens": "max_output_tokens",
    _CONTEXT_FULL: "max_output_tokens",
    "refusal": "content_filter",
}
"""The stop reasons of an answer that is not whole, as the Responses API names them."""


def response_from_message(body: bytes, params: ResponseCreateParams, *, model: str) -> Response:
    """Return the response to `params`. `model`: the model's name, used when the answer has none.

    Raises ValueError, LookupError or TypeError: the body is no message.
    """
    plain = orjson.loads(body)
    if not isinstance(plain, dict) or not isinstance(plain.get("content"), list):
        raise ValueError("no content")  # noqa: TRY004 - one class for every unreadable body
    digits = new_id()
    stop_reason = str(plain.get("stop_reason"))
    status = "incomplete" if stop_reason in _INCOMPLETE else "completed"
    items = _items(plain["content"], digits, status)
    return new_response(
        params,
        digits,
        output=_OUTPUT.validate_python(items),
        model=plain.get("model") or model,
        created_at=time.time(),
        incomplete=_incomplete(stop_reason),
        usage=_usage(plain.get("usage")),
    )


def _incomplete(stop_reason: str) -> IncompleteDetails | None:
    if stop_reason not in _INCOMPLETE:
        return None
    cause = {"stopped_by": CONTEXT_FULL} if stop_reason == _CONTEXT_FULL else {}
    return IncompleteDetails.model_validate({"reason": _INCOMPLETE[stop_reason], **cause})


def _items(content: list[Any], digits: str, status: str) -> list[JsonDict]:
    """Return one item for each block. Texts that follow each other are one message."""
    items: list[JsonDict] = []
    for block in content:
        number = f"{digits}{len(items)}"
        if thought_in(block) is not None:
            summary = [block_of_part(block)]
            items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
        elif block["type"] == "tool_use":
            items.append(_call(block, number, status))
        elif items and items[-1]["type"] == "message":
            items[-1]["content"].append(_part(block))
        else:
            items.append(_message([_part(block)], number, status))
    return items or [_message([_part({"type": "text", "text": ""})], digits, status)]


def _message(parts: list[JsonDict], digits: str, status: str) -> JsonDict:
    message: JsonDict = {"type": "message", "id": f"msg_{digits}", "role": "assistant"}
    return {**message, "status": status, "content": parts}


def _part(block: JsonObject) -> JsonDict:
    if block["type"] != "text":
        return dict(block)  # the provider's own, such as a search result
    annotations = block.get("citations") or []
    return {"type": "output_text", "text": block["text"], "annotations": annotations}


def _call(block: JsonObject, digits: str, status: str) -> JsonDict:
    return {
        "type": "function_call",
        "id": f"fc_{digits}",
        "call_id": block["id"],
        "name": block["name"],
        "arguments": orjson.dumps(block["input"]).decode(),
        "status": status,
    }


def _usage(usage: JsonObject | None) -> Usage | None:
    """Return the token counts. Messages counts what was read from the cache, or written to it,
    beside the other input.
    """
    if usage is None:
        return None
    cached_count, stored_count = (
        usage.get("cache_read_input_tokens"),
        usage.get("cache_creation_input_tokens"),
    )
    input_tokens = usage["input_tokens"] + (cached_count or 0) + (stored_count or 0)
    return Usage(
        input_tokens=input_tokens,
        input_tokens_details=cached_tokens(cached_count),
        output_tokens=usage["output_tokens"],
        total_tokens=input_tokens + usage["output_tokens"],
    )
