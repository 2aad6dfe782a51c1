"""Convert Palestra's rows and responses to and from the chat messages of the `verifiers` library."""

import time
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from palestra.errors import CallEvidence, FieldProblem, RowError
from palestra.schema import JsonDict, JsonObject, Response, ResponseCreateParams, fields_of
from palestra.transport import new_id

_SAMPLING = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}
_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_FOR_THE_ENDPOINT = ("extra_body", "chat_template_kwargs")
"""Keys of `metadata` with JSON text that is merged into every request of the model."""


def input_of(params: ResponseCreateParams, task: JsonObject) -> JsonDict:
    """Return the library's input for a row: the prompt as chat messages, and the fields of `task`.

    Raises RowError: the prompt has an item or a part that a chat lacks.
    """
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
    """Return the row's sampling settings under their Chat Completions names, and the fields that
    the row adds to the model's requests.

    Raises RowError: these are not a JSON object as text.
    """
    body, template = (_json_setting(params.metadata or {}, name) for name in _FOR_THE_ENDPOINT)
    if template:
        body["chat_template_kwargs"] = {**(body.get("chat_template_kwargs") or {}), **template}
    sampling = {
        **body,
        **(params.model_extra or {}),
        **{theirs: getattr(params, ours) for ours, theirs in _SAMPLING.items()},
        "reasoning_effort": (params.reasoning or {}).get("effort"),
    }
    return {name: value for name, value in sampling.items() if value is not None}


def _json_setting(metadata: JsonObject, name: str) -> JsonDict:
    text = metadata.get(name)
    try:
        value = {} if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        _refuse(f"/metadata/{name}", "a JSON object as text")
    return value


def response_of(output: JsonObject, *, model: str) -> Response:
    """Return the rollout's completion as one response; the environment's messages become user
    messages.
    """
    response: JsonDict = {
        "id": f"resp_{new_id()}",
        "created_at": int(time.time()),
        "model": model,
        "object": "response",
        "output": list(_items(output.get("completion") or [])),
        "usage": _usage(output.get("token_usage") or {}),
    }
    if output.get("is_truncated"):
        response["status"] = "incomplete"
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    return Response.model_validate(response)


def _usage(usage: JsonObject) -> JsonDict | None:
    """Return the token counts; None when the library does not know them."""
    input_tokens, written = usage.get("input_tokens"), usage.get("output_tokens")
    if input_tokens is None or written is None:
        return None
    total = int(input_tokens) + int(written)
    return {
        "input_tokens": int(input_tokens),
        "output_tokens": int(written),
        "total_tokens": total,
    }


def _chat(items: list[Any]) -> list[JsonDict]:
    """Convert the items of a row to chat messages, including their content parts."""
    chat: list[JsonDict] = []
    for index, item in enumerate(items):
        fields = orjson.loads(orjson.dumps(fields_of(item), default=fields_of))
        kind = fields.get("type") or "message"
        if kind == "function_call":
            _add_call(chat, fields)
        elif kind == "function_call_output":
            output = _content(fields.get("output"), f"/input/{index}/output")
            chat.append({"role": "tool", "tool_call_id": fields["call_id"], "content": output})
        elif kind == "message":
            role = fields.get("role", "user")
            content = _content(fields.get("content"), f"/input/{index}/content")
            chat.append({"role": "system" if role == "developer" else role, "content": content})
        else:
            _refuse(f"/input/{index}", f"a message, a call or its output, got type {kind!r}")
    return chat


def _add_call(chat: list[JsonDict], item: JsonObject) -> None:
    """Add a call to the assistant's last message, or to a new one."""
    function = {"name": item["name"], "arguments": item["arguments"]}
    if not chat or chat[-1]["role"] != "assistant":
        chat.append({"role": "assistant", "content": None})
    calls = chat[-1].setdefault("tool_calls", [])
    calls.append({"id": item["call_id"], "type": "function", "function": function})


def _content(content: Any, pointer: str) -> Any:
    if not isinstance(content, list):
        return content
    return [_part(part, f"{pointer}/{index}") for index, part in enumerate(content)]


def _part(part: JsonDict, pointer: str) -> JsonDict:
    kind = part.get("type")
    if kind == "input_image" and part.get("image_url"):
        image = {"url": part["image_url"]}
        if part.get("detail"):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind not in _TEXT_PARTS:
        _refuse(pointer, f"text or an image with its image_url, got type {kind!r}")
    return {"type": "text", "text": part.get("text", "")}


def _refuse(pointer: str, expected: str) -> NoReturn:
    raise RowError(
        f"{pointer} cannot be given to the verifiers library; expected: {expected}",
        evidence=CallEvidence(problems=(FieldProblem(pointer, expected),)),
    )


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
    refusal = message.get("refusal")
    if content or refusal or not calls:
        parts = [{"type": "refusal", "refusal": refusal}] if refusal else []
        if content or not refusal:
            parts.insert(0, {"type": "output_text", "text": content, "annotations": []})
        yield {
            "type": "message",
            "id": f"msg_{new_id()}",
            "role": "assistant",
            "status": "completed",
            "content": parts,
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
