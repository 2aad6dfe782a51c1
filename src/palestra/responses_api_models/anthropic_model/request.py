"""Convert a Responses API request to a request of Anthropic's Messages. Pure functions.

The conversion is the reverse of `palestra.server.fronts.messages`, which serves clients that speak
Messages. What Messages cannot express is refused with a JSON pointer to it, never left out.
"""

from collections.abc import Iterable
from typing import Any, Final, NoReturn

import orjson
from pydantic import TypeAdapter, ValidationError

from palestra.responses_api_models.chat import json_setting, wrap_thinking
from palestra.responses_api_models.chat.request import reasoning_effort, refuse_unsayable
from palestra.responses_api_models.chat.settings import refuse
from palestra.schema import (
    INSTRUCTION_ROLES,
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputImage,
    InputItem,
    InputText,
    JsonDict,
    JsonObject,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    ResponseCreateParams,
    Tool,
    UnknownPart,
    blocks_of,
    part_of_block,
)

_ENDPOINT: Final = "an endpoint of Anthropic's Messages"
_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])
_SAME_NAME: Final = ("temperature", "top_p", "service_tier")
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


def _refuse(pointer: str, expected: str) -> NoReturn:
    refuse(pointer, expected, endpoint=_ENDPOINT)


def to_messages_request(
    params: ResponseCreateParams, *, model: str, max_tokens: int, extra_body: JsonObject
) -> JsonDict:
    """Return the body to POST. `max_tokens`: the limit for a row that sets none; Messages requires
    one.

    Later sources override earlier ones: `extra_body`, the row's `metadata.extra_body`, unknown
    fields of the row's parameters, known fields. Raises `RowError`: Messages cannot express a part
    of the row.
    """
    refuse_unsayable(
        params, endpoint=_ENDPOINT, included=frozenset({"reasoning.encrypted_content"})
    )
    if params.top_logprobs:
        _refuse("/top_logprobs", "nothing: Messages has no log probabilities")
    if (params.metadata or {}).get("chat_template_kwargs"):
        _refuse("/metadata/chat_template_kwargs", "nothing: Messages has no chat template")
    unknown = {
        name: value for name, value in (params.model_extra or {}).items() if value is not None
    }
    if "stop" in unknown:
        stop = unknown.pop("stop")
        unknown["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if unknown.pop("n", 1) != 1:
        _refuse("/n", "1: a response is one answer (`--repeats` asks for more)")
    request: JsonDict = {
        **extra_body,
        **json_setting(params.metadata or {}, "extra_body"),
        **unknown,
        "model": model,
        "max_tokens": _limit(params, max_tokens),
        **_conversation(params),
        **_tools(params),
    }
    if request.get("stream"):
        _refuse("/metadata/extra_body", "no `stream`: an answer is read in one piece")
    values = params.__dict__
    request.update({name: value for name in _SAME_NAME if (value := values[name]) is not None})
    if params.user is not None:
        request["metadata"] = {"user_id": params.user}
    if output := _output_config(params):
        request["output_config"] = {**(request.get("output_config") or {}), **output}
    return request


def _limit(params: ResponseCreateParams, default: int) -> int:
    limit = params.max_output_tokens
    if limit is not None and limit < 1:
        _refuse("/max_output_tokens", f"at least 1, got {limit}")
    return default if limit is None else limit


def _output_config(params: ResponseCreateParams) -> JsonDict:
    """Return the reasoning effort and the format of the answer."""
    output: JsonDict = {}
    if params.reasoning and (effort := reasoning_effort(params.reasoning)) is not None:
        output["effort"] = effort
    for name, value in (params.text or {}).items():
        if value is not None and name != "format":
            _refuse(f"/text/{name}", "`format` alone")
    text_format = (params.text or {}).get("format") or {}
    if text_format.get("type") == "json_schema":
        output["format"] = {"type": "json_schema", "schema": text_format.get("schema")}
    elif text_format.get("type") not in {None, "text"}:
        _refuse("/text/format", "type text or json_schema")
    return output


def _tools(params: ResponseCreateParams) -> JsonDict:
    """Return the tools, and which of them the model must call; without tools, nothing."""
    chosen = params.tool_choice if "tool_choice" in params.model_fields_set else None
    if not params.tools:
        if chosen not in {None, "auto", "none"}:
            _refuse("/tool_choice", f'"auto" or "none" without tools, got {chosen!r:.100}')
        return {}
    fields: JsonDict = {"tools": [_tool(tool, index) for index, tool in enumerate(params.tools)]}
    parallel = params.parallel_tool_calls
    choice = _tool_choice("auto" if chosen is None else chosen)
    if parallel is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    if chosen is not None or parallel is False:
        fields["tool_choice"] = choice
    return fields


def _tool(tool: Tool, index: int) -> JsonDict:
    if not isinstance(tool, FunctionTool):
        _refuse(f"/tools/{index}", f'a tool of type "function", got {tool.type!r}')
    described = {} if tool.description is None else {"description": tool.description}
    schema = tool.parameters or {"type": "object", "properties": {}}
    return {"name": tool.name, **described, "input_schema": schema, **(tool.model_extra or {})}


def _tool_choice(choice: str | JsonDict) -> JsonDict:
    if isinstance(choice, str) and choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        return {"type": "tool", "name": choice["name"]}
    _refuse("/tool_choice", f"{', '.join(_CHOICES)} or one function, got {choice!r:.100}")


def _conversation(params: ResponseCreateParams) -> JsonDict:
    """Return `system` and `messages`. Items of one side that follow each other are one message."""
    system: list[JsonDict] = []
    if params.instructions:
        system.append({"type": "text", "text": params.instructions})
    messages: list[JsonDict] = []
    items = params.input
    if isinstance(items, str):
        messages.append({"role": "user", "content": items})
        items = []
    for index, item in enumerate(items):
        pointer = f"/input/{index}"
        if isinstance(item, Message) and item.role in INSTRUCTION_ROLES:
            if messages:
                _refuse(pointer, f"a {item.role} message only at the beginning")
            system += _heard(item.content, f"{pointer}/content")
            continue
        role, blocks = _side(item, pointer)
        if not blocks:
            continue  # an empty answer: Messages refuses a block without text
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return {"messages": messages, **({"system": system} if system else {})}


def _side(item: InputItem, pointer: str) -> tuple[str, list[JsonDict]]:
    """Return who speaks in an item, and its content."""
    if isinstance(item, FunctionCallOutput):
        output: Any = item.output
        if not isinstance(output, str):
            output = _heard(_parts(output, f"{pointer}/output"), f"{pointer}/output")
        return "user", [{"type": "tool_result", "tool_use_id": item.call_id, "content": output}]
    if isinstance(item, FunctionCall):
        return "assistant", [_tool_use(item, pointer)]
    if isinstance(item, Reasoning):
        return "assistant", list(_thinking(item, pointer))
    if not isinstance(item, Message):
        _refuse(pointer, f"an item that Messages has, got type {item.type!r}")
    if (item.model_extra or {}).get("name"):
        _refuse(f"{pointer}/name", "nothing: Messages has no names of speakers")
    if item.role == "assistant":
        return "assistant", _model_blocks(item, f"{pointer}/content")
    return "user", _heard(item.content, f"{pointer}/content")


def _parts(parts: list[Any], pointer: str) -> list[ContentPart]:
    try:
        return _PARTS.validate_python(parts)
    except ValidationError as error:
        _refuse(pointer, f"text or content parts ({error.errors()[0]['msg']})")


def _model_blocks(message: Message, pointer: str) -> list[JsonDict]:
    """Return what the model said. Its own blocks are sent back as they came."""
    if isinstance(message.content, str):
        return _text(message.content)
    blocks: list[JsonDict] = []
    for index, part in enumerate(message.content):
        if isinstance(part, OutputText | InputText):
            blocks += _text(part.text)
        elif isinstance(part, Refusal):
            blocks += _text(part.refusal)
        elif isinstance(part, InputImage):
            _refuse(f"{pointer}/{index}", "text in a message of the model, got an image")
        else:
            blocks.append({"type": part.type, **(part.model_extra or {})})
    return blocks


def _text(text: str) -> list[JsonDict]:
    return [{"type": "text", "text": text}] if text else []


def _heard(content: str | Iterable[ContentPart], pointer: str) -> list[JsonDict]:
    """Return what the model reads: text and images."""
    if isinstance(content, str):
        return _text(content)
    return [
        block
        for index, part in enumerate(content)
        for block in _heard_part(part, f"{pointer}/{index}")
    ]


def _heard_part(part: ContentPart, pointer: str) -> list[JsonDict]:
    if isinstance(part, InputText | OutputText):
        return [{**block, **_extra(part)} for block in _text(part.text)]
    if isinstance(part, UnknownPart) and part.type in {"text", "image", "document"}:
        return [{"type": part.type, **(part.model_extra or {})}]  # as Messages spells it
    if not isinstance(part, InputImage) or part.image_url is None:
        _refuse(pointer, f"text or an image with its image_url, got type {part.type!r}")
    return [{"type": "image", "source": _image_source(part.image_url), **_extra(part)}]


def _extra(part: ContentPart) -> JsonDict:
    """Return the other fields of a part, such as `cache_control`, unchanged."""
    return {name: value for name, value in (part.model_extra or {}).items() if value is not None}


def _image_source(url: str) -> JsonDict:
    media_type, marker, data = url.removeprefix("data:").partition(";base64,")
    if url.startswith("data:") and marker:
        return {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "url", "url": url}


def _tool_use(call: FunctionCall, pointer: str) -> JsonDict:
    try:
        arguments = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        _refuse(f"{pointer}/arguments", f"a JSON object, got {call.arguments!r:.100}")
    return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments}


def _thinking(reasoning: Reasoning, pointer: str) -> Iterable[JsonDict]:
    """Yield the reasoning's own blocks with their signatures; other reasoning as text in tags,
    because Messages takes no `thinking` block that it has not signed.
    """
    parts = [part_of_block(block) for block in reasoning.summary]
    if any(parts):
        for part, block in zip(parts, reasoning.summary, strict=True):
            yield from _text(wrap_thinking([block.text])) if part is None else [dict(part)]
        return
    blocks = blocks_of(reasoning)
    if reasoning.encrypted_content and not blocks:
        expected = "reasoning as text (only the provider that encrypted it can read it)"
        _refuse(f"{pointer}/encrypted_content", expected)
    yield from _text(wrap_thinking(blocks))
