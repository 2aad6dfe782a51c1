"""Chat Completions in front of a model server that speaks the Responses API. Pure functions."""

from collections.abc import Mapping
from typing import Any

from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    ChatChoice,
    ChatCompletion,
    ChatCreateParams,
    ChatMessage,
    FunctionCall,
    JsonDict,
    OutputMessage,
    OutputText,
    Reasoning,
    Refusal,
    Response,
    ResponseCreateParams,
    UnknownPart,
    Usage,
    to_plain,
)
from palestra.server.fronts.asked import (
    params_from,
    refuse,
    thoughts_of,
    tokens_of,
)
from palestra.server.fronts.chat_items import items_from_message

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
"""Parameters that have another name or form in the Responses API; all others pass unchanged."""

_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def params_from_chat(body: ChatCreateParams) -> ResponseCreateParams:
    """Convert a Chat Completions request to a Responses API request.

    Raises `RowError`: the request has something that the Responses API cannot express.
    """
    plain = to_plain(body)
    if plain.get("n") not in {None, 1}:
        refuse("/n", "1: a response is one answer")
    fields = {name: value for name, value in plain.items() if name not in _RENAMED}
    limit = plain.get("max_completion_tokens")
    fields["max_output_tokens"] = limit if limit is not None else plain.get("max_tokens")
    fields["input"] = [
        item
        for index, message in enumerate(plain["messages"])
        for item in items_from_message(message, f"/messages/{index}")
    ]
    if tools := plain.get("tools"):
        fields["tools"] = [_tool(tool, f"/tools/{index}") for index, tool in enumerate(tools)]
    if (choice := plain.get("tool_choice")) is not None:
        fields["tool_choice"] = _tool_choice(choice)
    if plain.get("logprobs"):
        fields["include"] = ["message.output_text.logprobs"]
    if effort := plain.get("reasoning_effort"):
        fields["reasoning"] = {"effort": effort}
    if text := _text(plain):
        fields["text"] = text
    return params_from(fields)


def completion_from_response(response: Response) -> ChatCompletion:
    """Convert a response to a chat completion."""
    messages = [item for item in response.output if isinstance(item, OutputMessage)]
    calls = [item for item in response.output if isinstance(item, FunctionCall)]
    parts = [part for item in messages for part in item.content]
    text = _chat_text(parts)
    message: JsonDict = {"role": "assistant", "content": text if text or not calls else None}
    if thoughts := thoughts_of(response):
        message["reasoning_content"] = thoughts
    message |= _beside_reasoning(response)
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
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
                **_said_of_the_end(response),
            )
        ],
        usage=None if response.usage is None else _usage(response.usage),
    )


def _tool(tool: JsonDict, pointer: str) -> JsonDict:
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


def _text(plain: JsonDict) -> JsonDict:
    text: JsonDict = {}
    if (response_format := plain.get("response_format")) is not None:
        schema = response_format.get("json_schema")
        is_schema = response_format.get("type") == "json_schema" and isinstance(schema, Mapping)
        text["format"] = {"type": "json_schema", **schema} if is_schema else response_format
    if plain.get("verbosity") is not None:
        text["verbosity"] = plain["verbosity"]
    return text


def _chat_text(parts: list[Any]) -> str | list[JsonDict]:
    """Return the message's text; a list of parts when the endpoint returned more than text."""
    if not any(isinstance(part, UnknownPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, OutputText))
    return [
        {"type": "text", "text": part.text} if isinstance(part, OutputText) else to_plain(part)
        for part in parts
        if not isinstance(part, Refusal)
    ]


def _beside_reasoning(response: Response) -> JsonDict:
    extras: JsonDict = {}
    for item in response.output:
        if isinstance(item, Reasoning):
            extra = item.model_extra or {}
            extras |= {name: extra[name] for name in BESIDE_REASONING if extra.get(name)}
    return extras


def _chat_call(call: FunctionCall) -> JsonDict:
    function = {"name": call.name, "arguments": call.arguments}
    tool_call = {"id": call.call_id, "type": "function", "function": function}
    signature = (call.model_extra or {}).get(CALL_SIGNATURE)
    return tool_call if signature is None else {**tool_call, CALL_SIGNATURE: signature}


def _finish_reason(response: Response, *, has_calls: bool) -> str:
    details = response.incomplete_details
    if details is not None and details.reason in _FINISH:
        return _FINISH[details.reason]
    return "tool_calls" if has_calls else "stop"


def _said_of_the_end(response: Response) -> JsonDict:
    """Return the endpoint's message about a full context as a field; {} without one."""
    details = response.incomplete_details
    provider_message = (
        None if details is None else (details.model_extra or {}).get("provider_message")
    )
    return {"provider_message": provider_message} if provider_message else {}


def _usage(usage: Usage) -> JsonDict:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "completion_tokens_details": {
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens
        },
    }
