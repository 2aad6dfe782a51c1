"""From the Responses API to Chat Completions: what to send. Pure functions.

What the model said in one turn (reasoning, text, tool calls) is several items of a
conversation and one message of a chat, so consecutive items of the model fold into one message.
What cannot be said in a chat is refused with a pointer to it, never left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, final

import orjson
from pydantic import TypeAdapter, ValidationError

from palestra.errors import Evidence, FieldProblem, RowError
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.chat.thinking import split_thinking, wrap_thinking
from palestra.schema import (
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputImage,
    InputItem,
    InputText,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    ResponseCreateParams,
    Tool,
    UnknownPart,
)

_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])

_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "audio_url", "video_url", "file"})
"""Parts that are of the chat already, as data made for vLLM has them."""

_LOGPROBS = "message.output_text.logprobs"

_SAME_NAME = ("temperature", "top_p", "user", "service_tier", "store")

_NEEDS_A_STORE = ("previous_response_id", "prompt")
"""Parameters that refer to something a Responses endpoint keeps; a chat endpoint keeps nothing."""


def to_chat_request(
    params: ResponseCreateParams, *, model: str, settings: ConversionSettings
) -> dict[str, Any]:
    """The body to POST; it shares tool schemas with `params`, so it must not be changed.

    Weakest to strongest: configured `extra_body`, the row's `metadata.extra_body`, unknown
    fields of the row's parameters, its known ones. Raises `RowError` for what a chat lacks.
    """
    metadata = params.metadata or {}
    request: dict[str, Any] = {
        **settings.extra_body,
        **json_setting(metadata, "extra_body"),
        **(params.model_extra or {}),
        "model": model,
        "messages": to_messages(params, settings),
    }
    template = template_kwargs(metadata, params.model_extra or {}, settings)
    if template:
        request["chat_template_kwargs"] = template
    request.update(_sampling(params, settings))
    if request.get("stream"):
        _refuse("/metadata/extra_body", "no `stream`: an answer is read in one piece")
    if params.tools:
        request["tools"] = [_tool(tool, index) for index, tool in enumerate(params.tools)]
        if "tool_choice" in params.model_fields_set and params.tool_choice is not None:
            request["tool_choice"] = _tool_choice(params.tool_choice)
        if (
            "parallel_tool_calls" in params.model_fields_set
            and params.parallel_tool_calls is not None
        ):
            request["parallel_tool_calls"] = params.parallel_tool_calls
    return request


def to_messages(params: ResponseCreateParams, settings: ConversionSettings) -> list[dict[str, Any]]:
    """The conversation as chat messages, instructions first. Raises `RowError`."""
    if isinstance(params.input, str):
        messages: list[dict[str, Any]] = [{"role": "user", "content": params.input}]
    else:
        messages = _fold(params.input, settings)
    if params.metadata:
        messages = _with_audio(params.metadata, messages)
    if params.instructions:
        messages = _with_instructions(params.instructions, messages)
    return messages


def template_kwargs(
    metadata: Mapping[str, Any], asked: Mapping[str, Any], settings: ConversionSettings
) -> dict[str, Any]:
    """The chat template's arguments: whatever a row says goes over the configuration.

    Either may give them by themselves or inside of `extra_body`; `asked` are the request's own
    fields. Raises `RowError`.
    """
    merged: dict[str, Any] = {}
    for pointer, given in (
        ("", settings.extra_body.get("chat_template_kwargs")),
        ("", settings.chat_template_kwargs),
        ("/metadata/extra_body", json_setting(metadata, "extra_body").get("chat_template_kwargs")),
        ("", asked.get("chat_template_kwargs")),
        ("/metadata", json_setting(metadata, "chat_template_kwargs")),
    ):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            _refuse(f"{pointer}/chat_template_kwargs", f"a JSON object, got {given!r:.100}")
        merged.update(given)
    return merged


def json_setting(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The JSON object that `metadata` holds as text under `key`. Raises `RowError`."""
    raw = metadata.get(key)
    if raw is None:
        return {}
    try:
        value = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError as error:
        _refuse(f"/metadata/{key}", f"a JSON object as text ({error})")
    if not isinstance(value, dict):
        _refuse(f"/metadata/{key}", f"a JSON object as text, got {raw!r:.100}")
    return value


def _refuse(pointer: str, expected: str) -> NoReturn:
    raise RowError(
        f"{pointer} cannot be sent to a Chat Completions endpoint; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )


@final
class _Turn:
    """One assistant message in the making."""

    __slots__ = ("_calls", "_last_is_reasoning", "_refusal", "_settings", "_text", "_thoughts")

    def __init__(self, settings: ConversionSettings) -> None:
        self._settings = settings
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._refusal = ""
        self._last_is_reasoning = False

    def add(self, item: InputItem, position: int) -> None:
        """Add one item of the model's own. Raises `RowError` for a kind that a chat lacks."""
        if isinstance(item, FunctionCall):
            function = {"name": item.name, "arguments": item.arguments}
            self._calls.append({"id": item.call_id, "type": "function", "function": function})
        elif isinstance(item, Reasoning):
            self._think(item, position)
        elif isinstance(item, Message):
            self._say(item, position)
        else:
            _refuse(f"/input/{position}", f"an item that a chat has, got type {item.type!r}")
        self._last_is_reasoning = isinstance(item, Reasoning)

    def _say(self, message: Message, position: int) -> None:
        if isinstance(message.content, str):
            self._text.append(message.content)
            return
        self._text.append("")
        for index, part in enumerate(message.content):
            if isinstance(part, (OutputText, InputText)):
                self._text.append(part.text)
            elif isinstance(part, Refusal):
                self._refusal += part.refusal
            else:
                pointer = f"/input/{position}/content/{index}"
                _refuse(pointer, f"text in a message of the model, got type {part.type!r}")

    def _think(self, reasoning: Reasoning, position: int) -> None:
        """Reasoning goes into its place in the text, or beside it for a reasoning parser."""
        if self._last_is_reasoning and not self._settings.sequential_reasoning_allowed:
            expected = "one reasoning item in a row (sequential_reasoning_allowed: false)"
            _refuse(f"/input/{position}", expected)
        blocks = _blocks(reasoning, position)
        if self._settings.uses_reasoning_parser:
            self._thoughts += blocks
        elif blocks:
            self._text.append(wrap_thinking(blocks))

    def message(self) -> dict[str, Any]:
        """The chat message. No text at all is null beside tool calls, else the empty text."""
        content: str | None = "".join(self._text)
        thoughts = self._thoughts
        if self._settings.uses_reasoning_parser and content:
            # Data may hold reasoning as tags in the text, where the parser's template
            # would not look for it.
            in_text, content = split_thinking(content)
            thoughts = thoughts + in_text
        if not self._text and self._calls:
            content = None
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if thoughts and self._settings.uses_interleaved_reasoning:
            # Servers and templates disagree on the name.
            message["reasoning_content"] = message["reasoning"] = "\n\n".join(thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        if self._refusal:
            message["refusal"] = self._refusal
        return message


def _blocks(reasoning: Reasoning, position: int) -> list[str]:
    """What was thought: the thoughts themselves where they are given, else their summary."""
    parts = reasoning.content or []
    blocks = [str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part]
    blocks = blocks or [part.text for part in reasoning.summary]
    if reasoning.encrypted_content and not blocks:
        expected = "reasoning as text (only the provider that encrypted it can read it)"
        _refuse(f"/input/{position}/encrypted_content", expected)
    return blocks


def _fold(items: Sequence[InputItem], settings: ConversionSettings) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    turn: _Turn | None = None
    for index, item in enumerate(items):
        heard = _heard(item, index, settings)
        if heard is None:
            if turn is None:
                turn = _Turn(settings)
            turn.add(item, index)
            continue
        if turn is not None:
            messages.append(turn.message())
            turn = None
        messages.append(heard)
    if turn is not None:
        messages.append(turn.message())
    return messages


def _heard(item: InputItem, index: int, settings: ConversionSettings) -> dict[str, Any] | None:
    """A message that the model reads, or None for an item of the model's own."""
    if isinstance(item, FunctionCallOutput):
        output = item.output
        content = (
            output if isinstance(output, str) else _raw_content(output, f"/input/{index}/output")
        )
        return {"role": "tool", "tool_call_id": item.call_id, "content": content}
    if not isinstance(item, Message) or item.role == "assistant":
        return None
    role: str = item.role
    if role == "developer" and settings.replace_developer_role_with_system:
        role = "system"
    if isinstance(item.content, str):
        return {"role": role, "content": item.content}
    return {"role": role, "content": _content(item.content, f"/input/{index}/content")}


def _raw_content(parts: list[Any], pointer: str) -> str | list[dict[str, Any]]:
    try:
        return _content(_PARTS.validate_python(parts), pointer)
    except ValidationError as error:
        _refuse(pointer, f"text or content parts ({error.errors()[0]['msg']})")


def _content(parts: Iterable[ContentPart], pointer: str) -> str | list[dict[str, Any]]:
    """Plain text when that is all there is: not every chat template reads parts."""
    chat_parts = [_part(part, f"{pointer}/{index}") for index, part in enumerate(parts)]
    if len(chat_parts) == 1 and chat_parts[0].keys() == {"type", "text"}:
        text: str = chat_parts[0]["text"]
        return text
    return chat_parts


def _part(part: ContentPart, pointer: str) -> dict[str, Any]:
    extra = part.model_extra or {}
    if isinstance(part, InputText | OutputText):
        return {"type": "text", "text": part.text, **extra}
    if isinstance(part, InputImage):
        if part.image_url is None:
            _refuse(pointer, "an image_url (files of the provider are not known in a chat)")
        image = {"url": part.image_url}
        if part.detail is not None:
            image["detail"] = part.detail
        return {"type": "image_url", "image_url": image, **extra}
    if isinstance(part, UnknownPart) and part.type in _CHAT_PARTS:
        return {"type": part.type, **extra}
    _refuse(pointer, f"text or an image, got type {part.type!r}")


def _with_instructions(text: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One system message at the head: many chat templates accept no second one."""
    leading = 0
    while leading < len(messages) and messages[leading]["role"] in {"system", "developer"}:
        leading += 1
    contents = [text, *(message["content"] for message in messages[:leading])]
    if all(isinstance(content, str) for content in contents):
        merged: Any = "\n\n".join(contents)
    else:
        merged = [part for content in contents for part in _as_parts(content)]
    return [{"role": "system", "content": merged}, *messages[leading:]]


def _with_audio(
    metadata: Mapping[str, Any], messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The row's audio (a data URL, or a WAV file in base64) before the last user message's text."""
    for name in ("audio_path", "audio_paths"):
        if metadata.get(name) is not None:
            _refuse(f"/metadata/{name}", "the audio itself, as `audio_data`")
    if metadata.get("audio_data") is None:
        return messages
    data = str(metadata["audio_data"])
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    if last < 0:
        _refuse("/metadata/audio_data", "audio beside a user message, and there is none")
    if data.startswith("data:"):
        audio: dict[str, Any] = {"type": "audio_url", "audio_url": {"url": data}}
    else:
        audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    heard = {"role": "user", "content": [audio, *_as_parts(messages[last]["content"])]}
    return [*messages[:last], heard, *messages[last + 1 :]]


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _sampling(params: ResponseCreateParams, settings: ConversionSettings) -> dict[str, Any]:
    """Everything about how to answer, apart from tools."""
    for name in _NEEDS_A_STORE:
        if getattr(params, name) is not None:
            _refuse(f"/{name}", "the whole conversation in `input`")
    asked = {name: value for name in _SAME_NAME if (value := getattr(params, name)) is not None}
    if params.max_output_tokens is not None:
        if params.max_output_tokens < 1:
            # An endpoint would say what it says of a prompt that leaves no room for an answer.
            _refuse("/max_output_tokens", f"at least 1, got {params.max_output_tokens}")
        asked[settings.max_tokens_parameter] = params.max_output_tokens
    if params.include and _LOGPROBS in params.include:
        asked["logprobs"] = True
    if params.top_logprobs:
        asked["logprobs"] = True
        asked["top_logprobs"] = params.top_logprobs
    if params.reasoning and params.reasoning.get("effort") is not None:
        asked["reasoning_effort"] = params.reasoning["effort"]
    if params.text:
        asked.update(_text_format(params.text))
    return asked


def _text_format(text: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if text.get("verbosity") is not None:
        asked["verbosity"] = text["verbosity"]
    wanted = text.get("format") or {}
    if wanted.get("type") == "json_schema":
        schema = {key: value for key, value in wanted.items() if key != "type"}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif wanted.get("type") not in {None, "text"}:
        asked["response_format"] = dict(wanted)
    return asked


def _tool(tool: Tool, index: int) -> dict[str, Any]:
    """`strict` is left out: only some endpoints know it, and they enforce what others ignore."""
    if not isinstance(tool, FunctionTool):
        _refuse(f"/tools/{index}", f'a tool of type "function", got {tool.type!r}')
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    function.update(tool.model_extra or {})
    return {"type": "function", "function": function}


def _tool_choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, str):
        return choice
    if choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    if choice.get("type") == "allowed_tools" and "tools" in choice:
        allowed = {
            "mode": choice.get("mode", "auto"),
            "tools": [_tool_choice(tool) for tool in choice["tools"]],
        }
        return {"type": "allowed_tools", "allowed_tools": allowed}
    return choice
