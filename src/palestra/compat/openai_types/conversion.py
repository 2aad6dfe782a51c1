"""The forms of conversations in Chat Completions and in the Responses API: parts, tools, settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from palestra.compat.openai_types.base import field_of
from palestra.schema import INSTRUCTION_ROLES, JsonDict, JsonObject

_WRITTEN_TYPES = frozenset(
    {
        "function_call",
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "computer_call",
        "custom_tool_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
    }
)
"""The types of items that the model made, besides assistant messages."""

_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "audio_url", "video_url", "file"})
"""The types of content parts that a chat has under the same name."""


SAME_NAME = (
    "metadata",
    "model",
    "parallel_tool_calls",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
)
"""The parameters of a Responses API request that a chat has under the same name."""

REPEATED = (
    "background",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
"""The parameters of a request that its response repeats."""


class InexpressibleError(NotImplementedError, ValueError):
    """The other API has no form for a part of the conversation. The message says which part."""


def split_responses_input_output_items(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the items before the first one that the model made, and the others."""
    for index, item in enumerate(items):
        if _is_written(item):
            return list(items[:index]), list(items[index:])
    return list(items), []


def _is_written(item: Any) -> bool:
    kind = field_of(item, "type")
    return kind in _WRITTEN_TYPES or (
        kind in (None, "message") and field_of(item, "role") == "assistant"
    )


def with_instructions(instructions: str, messages: list[JsonDict]) -> list[JsonDict]:
    """Merge the instructions and the leading system and developer messages into one system message.

    Many chat templates accept only one.
    """
    leading = 0
    while leading < len(messages) and _is_text_instruction(messages[leading]):
        leading += 1
    texts = [text_of(message["content"]) for message in messages[:leading]]
    content = "\n\n".join([instructions, *texts])
    return [{"role": "system", "content": content}, *messages[leading:]]


def _is_text_instruction(message: JsonObject) -> bool:
    content = message["content"]
    return message["role"] in INSTRUCTION_ROLES and (
        isinstance(content, str) or all(part["type"] == "text" for part in content)
    )


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is text, parts, or None."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text") or part.get("refusal") or "" for part in content)


def written_text(content: Any) -> str:
    """Return the text of an assistant message's content.

    Raises InexpressibleError: a part is neither text nor a refusal, such as an image.
    """
    for part in () if isinstance(content, str) else content or ():
        if "text" not in part and "refusal" not in part:
            raise InexpressibleError(
                f"an assistant message has no part of type {part.get('type')!r}"
            )
    return text_of(content)


def chat_content(content: Any) -> Any:
    """Return the content of a Responses API message in the form of a chat message.

    Raises InexpressibleError: a part has a type that a chat does not have.
    """
    if content is None or isinstance(content, str):
        return content or ""
    return [_chat_part(part) for part in content]


def _chat_part(part: JsonObject) -> JsonDict:
    kind = part.get("type")
    if kind in {"input_text", "output_text"}:
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and part.get("image_url"):
        image = {"url": part["image_url"]}
        if part.get("detail"):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_video" and part.get("video_url"):
        return {"type": "video_url", "video_url": {"url": part["video_url"]}}
    if kind in _CHAT_PARTS:
        return dict(part)
    raise InexpressibleError(f"a chat has no content part of type {kind!r}")


def responses_content(content: Any) -> Any:
    """Return the content of a chat message in the form of the Responses API."""
    if content is None or isinstance(content, str):
        return content or ""
    return [_responses_part(part) for part in content]


def _responses_part(part: JsonObject) -> JsonDict:
    kind = part.get("type")
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "image_url":
        image = part["image_url"]
        image = {"url": image} if isinstance(image, str) else image
        detail = image.get("detail") or "auto"
        return {"type": "input_image", "image_url": image["url"], "detail": detail}
    if kind == "video_url":
        return {"type": "input_video", "video_url": part["video_url"]["url"]}
    return dict(part)


def chat_tool(tool: JsonObject) -> JsonDict:
    """Return a tool in the form of a chat, without `strict`.

    Raises InexpressibleError: the provider runs the tool, which a chat does not have.
    """
    if tool.get("type") != "function":
        raise InexpressibleError(f"a chat has no tool of type {tool.get('type')!r}")
    function = {name: value for name, value in tool.items() if name not in {"type", "strict"}}
    return {"type": "function", "function": function}


def chat_tool_choice(choice: Any) -> Any:
    """Return a `tool_choice` in the form of a chat."""
    if isinstance(choice, Mapping) and choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def response_format(text_format: JsonObject | None) -> JsonDict | None:
    """Return the `response_format` of a chat for `text.format`; None for plain text."""
    if not text_format or text_format.get("type") == "text":
        return None
    if text_format.get("type") != "json_schema":
        return dict(text_format)
    schema = {name: value for name, value in text_format.items() if name != "type"}
    return {"type": "json_schema", "json_schema": schema}
