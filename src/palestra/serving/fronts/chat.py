"""Chat Completions in front of a model server that speaks the Responses API. Pure functions."""

from collections.abc import Mapping
from typing import Any

from palestra.schema import (
    ChatChoice,
    ChatCompletion,
    ChatCreateParams,
    ChatMessage,
    FunctionCall,
    OutputMessage,
    OutputText,
    Refusal,
    Response,
    ResponseCreateParams,
    Usage,
    to_plain,
)
from palestra.serving.fronts.asked import (
    JSON,
    params_from,
    refuse,
    thoughts_of,
    tokens_of,
    with_tokens,
)

_RENAMED = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "max_tokens",
        "max_completion_tokens",
        "response_format",
        "reasoning_effort",
        "verbosity",
        "logprobs",
        "n",
        "stream",
        "stream_options",
    }
)
"""Parameters that have another name or form in the Responses API; the others pass as they are."""

_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def params_from_chat(body: ChatCreateParams) -> ResponseCreateParams:
    """The same request to the Responses API. Raises `RowError` for what that cannot say."""
    asked = to_plain(body)
    if asked.get("n") not in {None, 1}:
        refuse("/n", "1: a response is one answer")
    fields = {name: value for name, value in asked.items() if name not in _RENAMED}
    limit = asked.get("max_completion_tokens")
    fields["max_output_tokens"] = limit if limit is not None else asked.get("max_tokens")
    fields["input"] = [
        item
        for index, message in enumerate(asked["messages"])
        for item in _items(message, f"/messages/{index}")
    ]
    if tools := asked.get("tools"):
        fields["tools"] = [_tool(tool, f"/tools/{index}") for index, tool in enumerate(tools)]
    if (choice := asked.get("tool_choice")) is not None:
        fields["tool_choice"] = _tool_choice(choice)
    if asked.get("logprobs"):
        fields["include"] = ["message.output_text.logprobs"]
    if effort := asked.get("reasoning_effort"):
        fields["reasoning"] = {"effort": effort}
    if text := _text(asked):
        fields["text"] = text
    return params_from(fields)


def completion_from_response(response: Response) -> ChatCompletion:
    """The same answer as a chat completion."""
    said = [item for item in response.output if isinstance(item, OutputMessage)]
    calls = [item for item in response.output if isinstance(item, FunctionCall)]
    text = response.output_text
    message: JSON = {"role": "assistant", "content": text if text or not calls else None}
    if thoughts := thoughts_of(response):
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    parts = [part for item in said for part in item.content]
    if refusal := "".join(part.refusal for part in parts if isinstance(part, Refusal)):
        message["refusal"] = refusal
    logprobs = [
        entry for part in parts if isinstance(part, OutputText) for entry in part.logprobs or ()
    ]
    return ChatCompletion(
        id=response.id,
        created=int(response.created_at),
        model=response.model,
        choices=[
            ChatChoice(
                index=0,
                # Its token ids are long, and were checked where they were made.
                message=ChatMessage.model_construct(None, **message, **tokens_of(response)),
                finish_reason=_finish_reason(response, has_calls=bool(calls)),
                logprobs={"content": logprobs, "refusal": None} if logprobs else None,
            )
        ],
        usage=None if response.usage is None else _usage(response.usage),
    )


def _items(message: JSON, pointer: str) -> list[JSON]:
    role, content = message["role"], message.get("content")
    if role == "assistant":
        return with_tokens(_own_items(message, pointer), message)
    if role == "tool":
        output = _heard(content, f"{pointer}/content")
        call_id = message.get("tool_call_id")
        if call_id is None:
            refuse(f"{pointer}/tool_call_id", "the id of the call that this answers")
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    if role not in {"system", "developer", "user"}:
        refuse(f"{pointer}/role", f"system, developer, user, assistant or tool, got {role!r:.40}")
    return [{"type": "message", "role": role, "content": _heard(content, f"{pointer}/content")}]


def _own_items(message: JSON, pointer: str) -> list[JSON]:
    items: list[JSON] = []
    if thoughts := message.get("reasoning_content") or message.get("reasoning"):
        summary = [{"type": "summary_text", "text": thoughts}]
        items.append({"type": "reasoning", "summary": summary})
    content, calls = message.get("content"), message.get("tool_calls") or []
    parts = _said(content, f"{pointer}/content") if content else []
    if refusal := message.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    if parts or not (items or calls):
        items.append({"type": "message", "role": "assistant", "content": parts})
    items += [
        _function_call(call, f"{pointer}/tool_calls/{index}") for index, call in enumerate(calls)
    ]
    return items


def _said(content: Any, pointer: str) -> list[JSON]:
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}]
    parts = []
    for index, part in enumerate(content):
        if part.get("type") == "text":
            parts.append({"type": "output_text", "text": part["text"], "annotations": []})
        elif part.get("type") == "refusal":
            parts.append({"type": "refusal", "refusal": part["refusal"]})
        else:
            refuse(f"{pointer}/{index}", f"text or a refusal, got type {part.get('type')!r:.40}")
    return parts


def _heard(content: Any, pointer: str) -> str | list[JSON]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return [_heard_part(part, f"{pointer}/{index}") for index, part in enumerate(content)]


def _heard_part(part: JSON, pointer: str) -> JSON:
    kind = part.get("type")
    if kind == "text":
        return {**part, "type": "input_text"}
    if kind == "image_url":
        image = part.get("image_url")
        if isinstance(image, str):
            image = {"url": image}
        if not isinstance(image, Mapping) or "url" not in image:
            refuse(f"{pointer}/image_url", "an object with a url")
        found = {"type": "input_image", "image_url": image["url"]}
        return found if image.get("detail") is None else {**found, "detail": image["detail"]}
    # Audio, video and files have no part of their own: whoever can read them, does.
    return part


def _function_call(call: JSON, pointer: str) -> JSON:
    function = call.get("function")
    if not isinstance(function, Mapping) or "name" not in function:
        refuse(f"{pointer}/function", "a function with a name and arguments")
    return {
        "type": "function_call",
        "call_id": call.get("id") or "",
        "name": function["name"],
        "arguments": function.get("arguments") or "",
    }


def _tool(tool: JSON, pointer: str) -> JSON:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        refuse(pointer, 'a tool of type "function"')
    return {"type": "function", **function}


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, Mapping):
        if isinstance(function := choice.get("function"), Mapping):
            return {"type": "function", **function}
        if isinstance(allowed := choice.get("allowed_tools"), Mapping):
            tools = [_tool_choice(tool) for tool in allowed.get("tools") or ()]
            return {"type": "allowed_tools", "mode": allowed.get("mode", "auto"), "tools": tools}
    return choice


def _text(asked: JSON) -> JSON:
    text: JSON = {}
    if (wanted := asked.get("response_format")) is not None:
        schema = wanted.get("json_schema")
        is_schema = wanted.get("type") == "json_schema" and isinstance(schema, Mapping)
        text["format"] = {"type": "json_schema", **schema} if is_schema else wanted
    if asked.get("verbosity") is not None:
        text["verbosity"] = asked["verbosity"]
    return text


def _chat_call(call: FunctionCall) -> JSON:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _finish_reason(response: Response, *, has_calls: bool) -> str:
    details = response.incomplete_details
    if details is not None and details.reason in _FINISH:
        return _FINISH[details.reason]
    return "tool_calls" if has_calls else "stop"


def _usage(usage: Usage) -> JSON:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "completion_tokens_details": {
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens
        },
    }
