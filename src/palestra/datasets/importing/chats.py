"""A chat, as other tools write it, as items of the Responses API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

_ROLES: Final = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}


def items_of(messages: Any) -> list[dict[str, Any]]:
    """The items of a conversation: `{role, content}` each, or `{from, value}`.

    Raises ValueError for what is no chat.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ValueError("is no list of messages")
    try:
        return [item for message in messages for item in _items(message)]
    except (AttributeError, TypeError) as error:
        raise ValueError("holds a message that is none of a chat") from error


def _items(message: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(message, Mapping):
        raise ValueError("holds a message that is no object")  # noqa: TRY004  # data, not code
    role = message.get("role") or message.get("from")
    content = message.get("content") if "content" in message else message.get("value")
    if role == "tool":
        output = content if isinstance(content, str) else orjson.dumps(content).decode()
        call_id = message.get("tool_call_id") or ""
        yield {"type": "function_call_output", "call_id": call_id, "output": output}
        return
    if content:
        said = content if isinstance(content, str) else [_part(part) for part in content]
        yield {"role": _ROLES.get(str(role), role), "content": said}
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        call_id = call.get("id") or ""
        name = function.get("name")
        yield {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}


def _part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "text":
        return {"type": "input_text", "text": part.get("text")}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        address = image.get("url") if isinstance(image, Mapping) else image
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    return part


def tools_of(tools: Any) -> list[Any]:
    """A chat's tools, which hold each function one level deeper."""
    return [
        {"type": "function", **tool["function"]}
        if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping)
        else tool
        for tool in tools
    ]


def split_answer(items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
    """What the model is given, and what it is expected to say: a last message of its own."""
    last = items[-1]
    if last.get("role") == "assistant" and isinstance(last.get("content"), str) and items[1:]:
        return items[:-1], last["content"]
    return items, None
