"""Convert Palestra's rows and responses to and from the chat messages of the `verifiers` library."""

import time
from collections.abc import Iterator
from typing import Any

import orjson

from palestra.schema import JsonDict, JsonObject, Response, ResponseCreateParams, fields_of
from palestra.transport import new_id

_SAMPLING = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}


def input_of(params: ResponseCreateParams, task: JsonObject) -> JsonDict:
    """Return the library's input for a row: the prompt as chat messages, and the fields of `task`."""
    conversation = params.input
    prompt = (
        [{"role": "user", "content": conversation}]
        if isinstance(conversation, str)
        else _chat(conversation)
    )
    if params.instructions is not None:
        prompt.insert(0, {"role": "system", "content": params.instructions})
    return {**task, "prompt": prompt}


def sampling_of(params: ResponseCreateParams) -> JsonDict:
    """Return the row's sampling settings under their Chat Completions names."""
    sampling = {theirs: getattr(params, ours) for ours, theirs in _SAMPLING.items()}
    return {name: value for name, value in sampling.items() if value is not None}


def response_of(output: JsonObject, *, model: str) -> Response:
    """Return the rollout's completion as one response; the environment's messages become user
    messages.
    """
    usage = output.get("token_usage") or {}
    input_tokens, written = (int(usage.get(f"{kind}_tokens") or 0) for kind in ("input", "output"))
    response: JsonDict = {
        "id": f"resp_{new_id()}",
        "created_at": int(time.time()),
        "model": model,
        "object": "response",
        "output": list(_items(output.get("completion") or [])),
        "usage": {
            "input_tokens": input_tokens,
            "output_tokens": written,
            "total_tokens": input_tokens + written,
        },
    }
    if output.get("is_truncated"):
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    return Response.model_validate(response)


def _chat(items: list[Any]) -> list[JsonDict]:
    """Convert the messages of a row to chat messages, including their content parts."""
    chat = []
    for item in items:
        fields = orjson.loads(orjson.dumps(fields_of(item), default=fields_of))
        content = fields.get("content")
        if isinstance(content, list):
            content = [_part(part) for part in content]
        role = fields.get("role", "user")
        chat.append({"role": "system" if role == "developer" else role, "content": content})
    return chat


def _part(part: JsonDict) -> JsonDict:
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    return {"type": "text", "text": part.get("text", "")}


def _items(messages: list[JsonObject]) -> Iterator[JsonDict]:
    for message in messages:
        role, content = message.get("role"), _text(message.get("content"))
        if role == "tool":
            yield {
                "type": "function_call_output",
                "call_id": message.get("tool_call_id") or "",
                "output": content,
            }
        elif role == "assistant":
            yield from _message_items(message, content)
        else:
            yield {"type": "message", "role": role or "user", "content": content}


def _message_items(message: JsonObject, content: str) -> Iterator[JsonDict]:
    """Yield the items of one model turn: reasoning, message and function calls."""
    if thought := message.get("reasoning_content"):
        summary = [{"type": "summary_text", "text": thought}]
        yield {"type": "reasoning", "id": f"rs_{new_id()}", "summary": summary}
    calls = [_call(call) for call in message.get("tool_calls") or []]
    if content or not calls:
        part = {"type": "output_text", "text": content, "annotations": []}
        yield {
            "type": "message",
            "id": f"msg_{new_id()}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    yield from calls


def _call(call: Any) -> JsonDict:
    """Convert a tool call to a `function_call` item. Some releases of the library write the call as
    JSON text.
    """
    call_fields: JsonObject = orjson.loads(call) if isinstance(call, str) else call
    function = call_fields.get("function") or call_fields
    return {
        "type": "function_call",
        "call_id": call_fields.get("id") or "",
        "name": function.get("name") or "",
        "arguments": function.get("arguments") or "{}",
    }


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
