"""What the index takes of the model's responses: turns, tool calls, and the end of the answer.

A response is decoded down to the texts of its messages, in one pass over the row. The texts stay as
they are in the row, and only the end of the last one is decoded: most bytes of a run are in them.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from palestra.analysis import UNREADABLE, RecordedObject, decode_value
from palestra.schema import field_of, is_truncated, turns_of
from palestra.viewer.index.layout import BETWEEN
from palestra.viewer.index.outline import RawText

END_CHARACTERS: Final = 200
"""How much of an answer is taken, from its end."""
_LONG_BYTES: Final = 8_192
"""Of a text that is longer in the row, only the end is decoded."""
_END_BYTES: Final = 12 * END_CHARACTERS
"""The bytes of the longest end: an escaped surrogate pair has 12."""
_CALL: Final = "function_call"
_MESSAGE: Final = ("message", None)
_MODEL: Final = ("assistant", None)
_role_and_type = attrgetter("role", "type")
_incomplete = attrgetter("incomplete_details")


class ContentPart(msgspec.Struct, gc=False):
    """What is decoded of a part of a message."""

    text: msgspec.Raw = msgspec.Raw(b"null")


class OutputItem(msgspec.Struct, gc=False):
    """What is decoded of an item of a response."""

    type: Any = None
    role: Any = None
    name: Any = None
    content: list[ContentPart | str | None] | str | None = None


class IndexedObject(RecordedObject, gc=False):
    """What is decoded of an object inside a row."""

    output: list[OutputItem] | str | None = None


class Digest(NamedTuple):
    """What is taken of one response. `tools`: their names, with BETWEEN around each."""

    turns: int
    calls: int
    tools: str
    answer: str


_NO_OUTPUT: Final = Digest(0, 0, "", "")


def digest_of(response: Any) -> Digest:
    """Return what is taken of one response, which Python's own JSON may have read."""
    output = getattr(response, "output", response)
    if type(output) is not list:
        return Digest(1, 0, "", output[-END_CHARACTERS:]) if type(output) is str else _NO_OUTPUT
    if output and type(output[0]) is not OutputItem:
        output = list(map(_as_item, output))
    names = [item.name for item in output if item.type == _CALL]
    turns = turns_of(map(_role_and_type, output))
    return Digest(turns, len(names), _tool_names(names) if names else "", _answer(output))


def are_truncated(responses: Sequence[Any]) -> Sequence[bool]:
    """Return for each response whether it was cut off at a limit."""
    try:
        is_any = any(map(_incomplete, responses))
    except AttributeError:  # a row without a response
        is_any = True
    return list(map(is_truncated, responses)) if is_any else [False] * len(responses)


def _as_item(item: Any) -> OutputItem:
    """Return an item that only Python's own JSON could read."""
    kind, role, name, content = (field_of(item, n) for n in OutputItem.__struct_fields__)
    texts = [_as_part(part) for part in content] if isinstance(content, list) else content
    return OutputItem(kind, role, name, texts if isinstance(texts, list | str) else None)


def _as_part(part: Any) -> str | None:
    text = part if isinstance(part, str) else field_of(part, "text")
    return text if isinstance(text, str) else None


def _tool_names(names: Sequence[Any]) -> str:
    distinct = sorted({name for name in names if isinstance(name, str)})
    return f"{BETWEEN}{BETWEEN.join(distinct)}{BETWEEN}" if distinct else ""


def _answer(items: Sequence[OutputItem]) -> str:
    """Return the end of the last message of the model."""
    for item in reversed(items):
        if item.type in _MESSAGE and item.role in _MODEL:
            end = _end_of(item.content)
            if end:
                return end
    return ""


def _end_of(content: list[ContentPart | str | None] | str | None) -> str:
    """Return the end of the texts of a message."""
    if type(content) is not list:
        return content[-END_CHARACTERS:] if isinstance(content, str) else ""
    ends = [_end(part.text) if type(part) is ContentPart else part for part in content]
    end = ends[0] if len(ends) == 1 else "\n".join([str(end) for end in ends if end])
    return end[-END_CHARACTERS:] if isinstance(end, str) else ""


_decode_text: Final = msgspec.json.Decoder(str | None).decode


def _end(raw: msgspec.Raw) -> str:
    """Return the end of a text, or all of it; empty for a value that is no text."""
    try:
        size = len(memoryview(raw))
        if size <= _LONG_BYTES:
            return _decode_text(raw) or ""
    except UNREADABLE:
        text = decode_value(raw)
        return text if isinstance(text, str) else ""
    long_text = RawText("text", raw)
    return long_text.end(_END_BYTES) if long_text.is_string else ""
