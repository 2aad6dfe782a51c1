"""Converts Anthropic's messages to items of the Responses API. Pure functions."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    CHAT_PART,
    JsonDict,
    block_of_part,
    thought_in,
)
from palestra.server.fronts.asked import refuse, with_tokens

FAILED = "Error"
"""The prefix of a failed tool's output."""


def text_of(block: JsonDict, pointer: str) -> str:
    """Return the text of a text block. Raises `RowError` for any other block."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        refuse(pointer, f"a block of text, got type {block.get('type')!r:.40}")
    return text


def items_from_message(message: JsonDict, pointer: str) -> list[JsonDict]:
    """Convert one message to items. Raises `RowError`."""
    role, content = message.get("role"), message.get("content")
    if role not in {"user", "assistant"}:
        refuse(f"{pointer}/role", f"user or assistant, got {role!r:.40}")
    blocks = _blocks_in(content, f"{pointer}/content")
    if role == "user":
        return list(_heard(blocks, f"{pointer}/content"))
    model_items = [_own_item(block, f"{pointer}/content/{i}") for i, block in enumerate(blocks)]
    return with_tokens(model_items or [_own_message("")], message)


def _blocks_in(content: Any, pointer: str) -> list[JsonDict]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        refuse(pointer, "text or a list of blocks")
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            refuse(f"{pointer}/{index}", f"a block, got {block!r:.40}")
    return content


def _heard(blocks: list[JsonDict], pointer: str) -> Iterator[JsonDict]:
    """Yield one item for each tool result, and a user message for the text between them."""
    parts: list[JsonDict] = []
    is_empty = not blocks
    for index, block in enumerate(blocks):
        where = f"{pointer}/{index}"
        if block.get("type") != "tool_result":
            parts.append(_part(block, where, or_else=" or a tool_result"))
            continue
        if parts:
            yield {"type": "message", "role": "user", "content": parts}
            parts = []
        yield _tool_output(block, where)
    if parts or is_empty:
        yield {"type": "message", "role": "user", "content": parts}


def _tool_output(block: JsonDict, pointer: str) -> JsonDict:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        refuse(
            f"{pointer}/tool_use_id", f"the id of the call that this answers, got {call_id!r:.40}"
        )
    content, where = block.get("content"), f"{pointer}/content"
    output: str | list[JsonDict]
    if content is None or isinstance(content, str):
        output = content or ""
    else:
        blocks = _blocks_in(content, where)
        output = [_part(block, f"{where}/{index}") for index, block in enumerate(blocks)]
    if block.get("is_error"):
        output = _as_error(output)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _as_error(output: str | list[JsonDict]) -> str | list[JsonDict]:
    """Return a failed tool's output marked with the prefix "Error": an output item has no error
    field.
    """
    if isinstance(output, str):
        return f"{FAILED}: {output}" if output else FAILED
    if output and output[0]["type"] == "input_text":
        first = {**output[0], "text": f"{FAILED}: {output[0]['text']}"}
        return [first, *output[1:]]
    return [{"type": "input_text", "text": FAILED}, *output]


def _part(block: JsonDict, pointer: str, or_else: str = "") -> JsonDict:
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return {"type": "input_text", "text": text_of(block, pointer)}
    if kind != "image" or not isinstance(source, Mapping):
        refuse(pointer, f"text, an image{or_else}, got type {kind!r:.40}")
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "input_image", "image_url": url}
    if not isinstance(source.get("url"), str):
        refuse(f"{pointer}/source", f"base64 or a url, got type {source.get('type')!r:.40}")
    return {"type": "input_image", "image_url": source["url"]}


def _own_item(block: JsonDict, pointer: str) -> JsonDict:
    kind = block.get("type")
    if kind not in {"text", "thinking", "tool_use"}:
        refuse(pointer, f"text, thinking or a tool_use, got type {kind!r:.40}")
    if kind == "text":
        return _own_message(text_of(block, pointer))
    if kind == "thinking":
        return _reasoning(block)
    for name in ("id", "name"):
        if not isinstance(block.get(name), str):
            refuse(f"{pointer}/{name}", f"text, got {block.get(name)!r:.40}")
    signature = block.get(CALL_SIGNATURE)
    return {
        "type": "function_call",
        "call_id": block["id"],
        "name": block["name"],
        "arguments": _arguments(block),
        **({} if signature is None else {CALL_SIGNATURE: signature}),
    }


def _reasoning(block: JsonDict) -> JsonDict:
    text, part = str(block.get("thinking") or ""), block.get(CHAT_PART)
    signatures = {name: block[name] for name in BESIDE_REASONING if block.get(name)}
    if isinstance(part, dict) and thought_in(part) == text:
        summary = [block_of_part(part)]
    else:
        summary = [{"type": "summary_text", "text": text}] if text or not signatures else []
    return {"type": "reasoning", "summary": summary, **signatures}


def _own_message(text: str) -> JsonDict:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}


def _arguments(block: JsonDict) -> str:
    """Return the arguments as the model wrote them, if they still equal the block's `input`; else
    `input` as JSON.
    """
    tool_input, written = block.get("input", {}), block.get("arguments")
    if isinstance(written, str) and as_object(written) == tool_input:
        return written
    return orjson.dumps(tool_input).decode()


def as_object(arguments: str) -> JsonDict:
    """Return the arguments as a JSON object, as a `tool_use` block requires; {} when they are no
    object.
    """
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
