"""Converts chat messages to items of the Responses API. Pure functions."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import orjson

from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    PROMPT_ROLES,
    JsonDict,
    block_of_part,
    thought_in,
)
from palestra.server.fronts.asked import refuse, with_tokens

_NEVER_BACK = {
    "function_call": "`tool_calls`, which took its place",
    "audio": "what was said, as `content`: nobody here keeps the sound",
}
"""Fields of an answer that cannot be sent back, and what to send instead."""

_ONLY_HEARD = frozenset({"image_url", "input_audio", "audio_url", "video_url", "file"})
"""Part types that only input messages can have, never the model's. Unknown types pass unchanged."""


def items_from_message(message: JsonDict, pointer: str) -> list[JsonDict]:
    """Convert one message to items; a message of the model may become several. Raises `RowError`."""
    role, content = message["role"], message.get("content")
    if role == "assistant":
        return with_tokens(_own_items(message, pointer), message)
    if role == "tool":
        output = _heard(content, f"{pointer}/content")
        call_id = message.get("tool_call_id")
        if call_id is None:
            refuse(f"{pointer}/tool_call_id", "the id of the call that this answers")
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    if role not in PROMPT_ROLES:
        refuse(f"{pointer}/role", f"system, developer, user, assistant or tool, got {role!r:.40}")
    heard = _heard(content, f"{pointer}/content")
    return [{"type": "message", "role": role, "content": heard, **_name(message)}]


def _name(message: JsonDict) -> JsonDict:
    return {"name": message["name"]} if message.get("name") else {}


def _own_items(message: JsonDict, pointer: str) -> list[JsonDict]:
    for name, instead in _NEVER_BACK.items():
        if message.get(name):
            refuse(f"{pointer}/{name}", instead)
    items: list[JsonDict] = []
    signatures = {name: message[name] for name in BESIDE_REASONING if message.get(name)}
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if thoughts or signatures:
        summary = [{"type": "summary_text", "text": thoughts}] if thoughts else []
        items.append({"type": "reasoning", "summary": summary, **signatures})
    content, calls = message.get("content"), message.get("tool_calls") or []
    parts = list(_content_parts(content, f"{pointer}/content")) if content else []
    if refusal := message.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    for is_thought, group in groupby(parts, key=lambda part: part["type"] == "summary_text"):
        if is_thought:
            items.append({"type": "reasoning", "summary": list(group)})
        else:
            items.append(_own_message(list(group), message))
    if message.get("name") and not any(item["type"] == "message" for item in items):
        items.append(_own_message([], message))
    items += [
        _function_call(call, f"{pointer}/tool_calls/{index}") for index, call in enumerate(calls)
    ]
    return items or [_own_message([], message)]


def _own_message(parts: list[JsonDict], message: JsonDict) -> JsonDict:
    return {"type": "message", "role": "assistant", "content": parts, **_name(message)}


def _content_parts(content: str | list[JsonDict], pointer: str) -> Iterator[JsonDict]:
    """Yield the parts of the model's message; a thinking part becomes a summary text."""
    if isinstance(content, str):
        yield {"type": "output_text", "text": content, "annotations": []}
        return
    for index, part in enumerate(content):
        kind = part.get("type")
        if thought_in(part) is not None:
            yield block_of_part(part)
        elif kind == "text":
            text = _text_of(part, f"{pointer}/{index}")
            yield {"type": "output_text", "text": text, "annotations": []}
        elif kind == "refusal":
            yield {"type": "refusal", "refusal": str(part.get("refusal") or "")}
        elif kind is None or kind in _ONLY_HEARD:
            refuse(f"{pointer}/{index}", f"text, thinking or a refusal, got type {kind!r:.40}")
        else:
            yield part


def _text_of(part: JsonDict, pointer: str) -> str:
    text = part.get("text")
    if not isinstance(text, str):
        refuse(f"{pointer}/text", f"text, got {text!r:.40}")
    return text


def _heard(content: Any, pointer: str) -> str | list[JsonDict]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return [_heard_part(part, f"{pointer}/{index}") for index, part in enumerate(content)]


def _heard_part(part: JsonDict, pointer: str) -> JsonDict:
    kind = part.get("type")
    if kind == "text":
        return {**part, "type": "input_text", "text": _text_of(part, pointer)}
    if kind == "image_url":
        image = part.get("image_url")
        if isinstance(image, str):
            image = {"url": image}
        if not isinstance(image, Mapping) or "url" not in image:
            refuse(f"{pointer}/image_url", "an object with a url")
        if image.keys() <= {"url", "detail"}:
            detail = {} if image.get("detail") is None else {"detail": image["detail"]}
            return {**part, "type": "input_image", "image_url": image["url"], **detail}
    # Audio, video and files have no part of their own: whoever can read them, does.
    return part


def _function_call(call: JsonDict, pointer: str) -> JsonDict:
    function = call.get("function")
    if not isinstance(function, Mapping) or "name" not in function:
        refuse(f"{pointer}/function", "a function with a name and arguments")
    arguments = function.get("arguments") or ""
    if not isinstance(arguments, str):
        arguments = orjson.dumps(arguments).decode()
    signature = call.get(CALL_SIGNATURE)
    return {
        "type": "function_call",
        "call_id": call.get("id") or "",
        "name": function["name"],
        "arguments": arguments,
        **({} if signature is None else {CALL_SIGNATURE: signature}),
    }
