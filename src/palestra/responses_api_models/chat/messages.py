"""Convert a conversation of the Responses API to chat messages. Pure functions.

One model turn (reasoning, text, tool calls) is several items of a conversation, but one chat
message. So consecutive items of the model are merged into one message. What a chat cannot express
is refused with a JSON pointer to it, never left out.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, final

from pydantic import TypeAdapter, ValidationError

from palestra.responses_api_models.chat.settings import ConversionSettings, refuse
from palestra.responses_api_models.chat.thinking import has_tags, split_thinking, wrap_thinking
from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    INSTRUCTION_ROLES,
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
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
    UnknownPart,
    blocks_of,
    part_of_block,
)

_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])

_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "audio_url", "video_url", "file"})
"""The types of parts that are already chat parts, as in data made for vLLM."""

_NEVER_SAID = frozenset({"input_image", "input_file", "input_video"})
"""The types of parts that an assistant message cannot contain. Other unknown parts come from the
endpoint's own earlier answers, so they are sent back."""


def to_messages(params: ResponseCreateParams, settings: ConversionSettings) -> list[JsonDict]:
    """Return the conversation as chat messages, instructions first.

    Raises `RowError`: a chat cannot express a part of the conversation.
    """
    if isinstance(params.input, str):
        messages: list[JsonDict] = [{"role": "user", "content": params.input}]
    else:
        messages = _fold(params.input, settings)
    if params.metadata:
        messages = _with_audio(params.metadata, messages)
    if params.instructions:
        messages = _with_instructions(params.instructions, messages)
    return messages


Piece = str | JsonObject
"""A piece of the model's answer: text, or a part that only its own endpoint reads."""


@final
class _Turn:
    """A builder of one assistant message."""

    __slots__ = (
        "_calls",
        "_last_is_reasoning",
        "_more",
        "_pieces",
        "_settings",
        "_thinks",
        "_thoughts",
    )

    def __init__(self, settings: ConversionSettings) -> None:
        self._settings = settings
        self._pieces: list[Piece] = []
        self._thoughts: list[str] = []
        self._calls: list[JsonDict] = []
        self._more: JsonDict = {}
        self._last_is_reasoning = False
        self._thinks = False

    def add(self, item: InputItem, position: int) -> None:
        """Add one item that the model wrote. Raises `RowError`: a chat has no such item type."""
        if isinstance(item, FunctionCall):
            self._calls.append(_call(item))
        elif isinstance(item, Reasoning):
            self._think(item, position)
        elif isinstance(item, Message):
            self._add_message(item, position)
        else:
            refuse(f"/input/{position}", f"an item that a chat has, got type {item.type!r}")
        self._last_is_reasoning = isinstance(item, Reasoning)

    def _add_message(self, message: Message, position: int) -> None:
        if message.__pydantic_extra__:
            self._more.update(_name(message))
        if isinstance(message.content, str):
            self._pieces.append(message.content)
            return
        self._pieces.append("")
        for index, part in enumerate(message.content):
            if isinstance(part, (OutputText, InputText)):
                self._pieces.append(part.text)
            elif isinstance(part, Refusal):
                self._more["refusal"] = self._more.get("refusal", "") + part.refusal
            elif part.type == "text":  # as a chat spells it
                self._pieces.append(str((part.model_extra or {}).get("text", "")))
            elif part.type in _NEVER_SAID:
                pointer = f"/input/{position}/content/{index}"
                refuse(pointer, f"text in a message of the model, got type {part.type!r}")
            else:
                self._pieces.append({"type": part.type, **_extra(part)})

    def _think(self, reasoning: Reasoning, position: int) -> None:
        """Put the reasoning back where the endpoint had it: in the text, beside the text, or among
        its parts.
        """
        settings = self._settings
        self._thinks = True
        if self._last_is_reasoning and not settings.sequential_reasoning_allowed:
            expected = "one reasoning item in a row (sequential_reasoning_allowed: false)"
            refuse(f"/input/{position}", expected)
        if settings.uses_reasoning_parser and not settings.uses_interleaved_reasoning:
            return
        extra = reasoning.model_extra or {}
        signatures = {name: extra[name] for name in BESIDE_REASONING if extra.get(name)}
        self._more.update(signatures)
        parts = [part_of_block(block) for block in reasoning.summary]
        if not any(parts):
            self._add_thoughts(_blocks(reasoning, position, elsewhere=bool(signatures)))
            return
        for part, block in zip(parts, reasoning.summary, strict=True):
            if part is None:
                self._add_thoughts([block.text])
            else:
                self._pieces.append(part)

    def _add_thoughts(self, blocks: list[str]) -> None:
        if self._settings.uses_reasoning_parser:
            self._thoughts += blocks
        elif blocks:
            self._pieces.append(wrap_thinking(blocks))

    def message(self) -> JsonDict:
        """Return the chat message. Without any text, its content is null if there are tool calls,
        else "".
        """
        thoughts = self._thoughts
        content: Any = self._content(thoughts) if self._pieces else ""
        if not self._pieces and self._calls:
            content = None
        message: JsonDict = {"role": "assistant", "content": content}
        if thoughts and self._settings.uses_interleaved_reasoning:
            # Servers and templates disagree on the name.
            message["reasoning_content"] = message["reasoning"] = "\n\n".join(thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        return message | self._more if self._more else message

    def _content(self, thoughts: list[str]) -> str | list[Any]:
        """Return the pieces as text, or as a list of parts when a piece is a part."""
        if len(self._pieces) == 1 and isinstance(only_piece := self._pieces[0], str):
            return self._text(only_piece, thoughts)
        parts: list[Any] = []
        for is_text, group in groupby(self._pieces, key=lambda piece: isinstance(piece, str)):
            if not is_text:
                parts += group
                continue
            text = self._text("".join(map(str, group)), thoughts)
            parts.append({"type": "text", "text": text})
        if len(parts) == 1 and isinstance(self._pieces[0], str):
            together: str = parts[0]["text"]
            return together
        return [part for part in parts if part.get("text") != "" or part["type"] != "text"]

    def _text(self, text: str, thoughts: list[str]) -> str:
        """Return the text without its reasoning, which is appended to `thoughts`.

        Data may contain reasoning as tags in the text, where the template of a reasoning parser
        does not look for it.
        """
        if not self._settings.uses_reasoning_parser or not has_tags(text):
            return text
        in_text, text = split_thinking(text, lone_tags=not self._thinks)
        thoughts += in_text
        return text


def _call(item: FunctionCall) -> JsonDict:
    function = {"name": item.name, "arguments": item.arguments}
    call = {"id": item.call_id, "type": "function", "function": function}
    signature = (item.model_extra or {}).get(CALL_SIGNATURE)
    return call if signature is None else {**call, CALL_SIGNATURE: signature}


def _blocks(reasoning: Reasoning, position: int, *, elsewhere: bool) -> list[str]:
    """Return the reasoning as text blocks.

    Encrypted reasoning without text is refused, unless `elsewhere` is true: then the message
    carries the reasoning in other fields.
    """
    blocks = blocks_of(reasoning)
    if reasoning.encrypted_content and not blocks and not elsewhere:
        expected = "reasoning as text (only the provider that encrypted it can read it)"
        refuse(f"/input/{position}/encrypted_content", expected)
    return blocks


def _fold(items: Sequence[InputItem], settings: ConversionSettings) -> list[JsonDict]:
    messages: list[JsonDict] = []
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


def _heard(item: InputItem, index: int, settings: ConversionSettings) -> JsonDict | None:
    """Return an item that the model reads as a chat message; None for an item that the model wrote."""
    if isinstance(item, FunctionCallOutput):
        output: Any = item.output
        if not isinstance(output, str):
            output = _raw_content(output, f"/input/{index}/output")
        return {"role": "tool", "tool_call_id": item.call_id, "content": output}
    if not isinstance(item, Message) or item.role == "assistant":
        return None
    role: str = item.role
    if role == "developer" and settings.replace_developer_role_with_system:
        role = "system"
    content: Any = item.content
    if not isinstance(content, str):
        content = _content(content, f"/input/{index}/content")
    heard = {"role": role, "content": content}
    return heard | _name(item) if item.__pydantic_extra__ else heard


def _name(message: Message) -> JsonDict:
    """Return the message's `name` as a chat field, if set. A chat supports no other extra field of
    a message.
    """
    name = (message.model_extra or {}).get("name")
    return {"name": name} if name else {}


def _raw_content(parts: list[Any], pointer: str) -> str | list[JsonDict]:
    try:
        return _content(_PARTS.validate_python(parts), pointer)
    except ValidationError as error:
        refuse(pointer, f"text or content parts ({error.errors()[0]['msg']})")


def _content(parts: Iterable[ContentPart], pointer: str) -> str | list[JsonDict]:
    """Return content parts as chat parts, or as plain text when there is only one text.

    Plain text, because not every chat template reads parts. No parts become the empty text, because
    some endpoints refuse an empty list.
    """
    chat_parts = [_part(part, f"{pointer}/{index}") for index, part in enumerate(parts)]
    if len(chat_parts) == 1 and chat_parts[0].keys() == {"type", "text"}:
        text: str = chat_parts[0]["text"]
        return text
    return chat_parts or ""


def _extra(part: ContentPart) -> JsonDict:
    """Return the other fields of a part, such as cache settings or the position in a video,
    unchanged.
    """
    return {name: value for name, value in (part.model_extra or {}).items() if value is not None}


def _part(part: ContentPart, pointer: str) -> JsonDict:
    extra = _extra(part)
    if isinstance(part, InputText | OutputText):
        return {"type": "text", "text": part.text, **extra}
    if isinstance(part, InputImage):
        if part.image_url is None:
            refuse(pointer, "an image_url (files of the provider are not known in a chat)")
        image = {"url": part.image_url}
        if part.detail is not None:
            image["detail"] = part.detail
        return {"type": "image_url", "image_url": image, **extra}
    if not isinstance(part, UnknownPart) or part.type not in _CHAT_PARTS:
        refuse(pointer, f"text or an image, got type {part.type!r}")
    return {"type": part.type, **extra}


def _with_instructions(text: str, messages: list[JsonDict]) -> list[JsonDict]:
    """Merge the instructions and the leading system messages into one system message.

    Many chat templates accept no second system message. A message with a `name` is not merged,
    because the name would be lost.
    """
    leading = 0
    while leading < len(messages) and _is_told_to_the_model(messages[leading]):
        leading += 1
    contents = [text, *(message["content"] for message in messages[:leading])]
    if all(isinstance(content, str) for content in contents):
        merged: Any = "\n\n".join(contents)
    else:
        merged = [part for content in contents for part in _as_parts(content)]
    return [{"role": "system", "content": merged}, *messages[leading:]]


def _is_told_to_the_model(message: JsonObject) -> bool:
    return message["role"] in INSTRUCTION_ROLES and "name" not in message


def _with_audio(metadata: JsonObject, messages: list[JsonDict]) -> list[JsonDict]:
    """Put the row's `audio_data` (a data URL, or a WAV file in base64) before the text of the last
    user message.
    """
    for name in ("audio_path", "audio_paths"):
        if metadata.get(name) is not None:
            refuse(f"/metadata/{name}", "the audio itself, as `audio_data`")
    if metadata.get("audio_data") is None:
        return messages
    data = str(metadata["audio_data"])
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    if last < 0:
        refuse("/metadata/audio_data", "audio beside a user message, and there is none")
    if data.startswith("data:"):
        audio: JsonDict = {"type": "audio_url", "audio_url": {"url": data}}
    else:
        audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    heard = {"role": "user", "content": [audio, *_as_parts(messages[last]["content"])]}
    return [*messages[:last], heard, *messages[last + 1 :]]


def _as_parts(content: str | list[JsonDict]) -> list[JsonDict]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
