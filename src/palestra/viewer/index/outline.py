"""Splits the bytes of a row into its items and texts, without decoding the whole row.

A row of 100 MB costs one pass over its bytes. Texts are returned in ranges, so a text of 100 MB
never is in memory as a string.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from palestra.analysis import UNREADABLE, decode_value, split_row
from palestra.errors import InputDataError
from palestra.metrics import RESPONSE
from palestra.schema import CREATE_PARAMS

RANGE_BYTES: Final = 1 << 16
HEAD_CHARACTERS: Final = 200
_LONGEST_ESCAPE: Final = 12
"""The bytes of an escaped surrogate pair."""
_BACKSLASH: Final = 0x5C
_SHORT_BYTES: Final = 4_096
"""The largest name, role or type that is decoded."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text of an item. `kind`: `text`, `reasoning`, `arguments`, `output`, `image` (its address)
    or `json`.
    """

    kind: str
    size: int
    """The length in the file, in bytes; escaped characters count as they are written."""
    head: str
    """The first 200 characters."""


@dataclass(frozen=True, slots=True)
class SplitItem:
    """One item of a conversation."""

    number: int
    """The position in the conversation of the row, from 0; prompt and output are counted together."""
    section: str
    """`prompt` or `output`."""
    kind: str
    """`message`, `reasoning`, `function_call`, `function_call_output`, or the item's own type."""
    role: str
    name: str
    """The name of the called tool."""
    call_id: str
    size: int
    """The length of the item in the file, in bytes."""
    texts: tuple[TextPart, ...]
    fields: tuple[str, ...]
    """The names of the item's fields, such as `generation_log_probs`."""


@dataclass(frozen=True, slots=True)
class TextRange:
    """A part of a text. `next`: the `start` of the following part; None at the end."""

    text: str
    start: int
    next: int | None
    size: int


@dataclass(frozen=True, slots=True)
class RawText:
    """A text as it is in a row. `kind`: as in `TextPart`."""

    kind: str
    raw: msgspec.Raw

    @property
    def is_string(self) -> bool:
        """Whether it is a JSON string; else it is shown as the JSON that it is."""
        return self.kind != "json" and bytes(memoryview(self.raw)[:1]) == b'"'

    @property
    def text(self) -> str:
        """The whole text."""
        if self.is_string:
            return str(decode_value(self.raw))
        return bytes(memoryview(self.raw)).decode("utf-8", "replace")

    @property
    def body(self) -> memoryview:
        """The bytes, without the quotes of a string."""
        content = memoryview(self.raw)
        return content[1:-1] if self.is_string else content

    def range(self, start: int, length: int) -> TextRange:
        """Return a part, whose ends lie between characters."""
        body, is_string = self.body, self.is_string
        begin = _edge(body, start, escapes=is_string)
        end = _edge(body, begin + length, escapes=is_string)
        if end <= begin:
            end = _edge(body, begin + 2 * _LONGEST_ESCAPE, escapes=is_string)
        text = bytes(body[begin:end]).decode("utf-8", "replace")
        if is_string:
            text = json.loads(f'"{text}"', strict=False)
        return TextRange(text, begin, end if end < len(body) else None, len(body))

    def end(self, length: int) -> str:
        """Return what the last `length` bytes hold, from the first whole character on."""
        body, quote = self.body, b'"' if self.is_string else b""
        start = _edge(body, len(body) - length, escapes=self.is_string)
        if not quote:
            return bytes(body[start:]).decode("utf-8", "replace")
        return str(decode_value(msgspec.Raw(b"".join((quote, body[start:], quote)))))

    def part(self) -> TextPart:
        """Return its size and beginning."""
        beginning = self.range(0, HEAD_CHARACTERS * _LONGEST_ESCAPE // 2).text
        return TextPart(self.kind, len(self.body), beginning[:HEAD_CHARACTERS])


class SplitRow:
    """The items of a row: instructions, prompt, output. Raises InputDataError: the row is not a JSON
    object.
    """

    def __init__(self, row: bytes) -> None:
        fields = split_row(row)
        if fields is None:
            raise InputDataError("the row is not a JSON object")
        self.row, self.fields = row, fields
        params = fields_of(fields.get(CREATE_PARAMS))
        self._instructions = [
            raw for raw in (params.get("instructions"),) if raw and _is_string(raw)
        ]
        self._prompt = items_of(params.get("input"))
        response = _split_response(fields.get(RESPONSE))
        self._output = response.output or []
        self.model = _short(response.model)
        """The name of the model that answered; empty when the row has none."""

    def __len__(self) -> int:
        return len(self._instructions) + len(self._prompt) + len(self._output)

    def raws(self) -> Iterator[tuple[str, str, msgspec.Raw]]:
        """Yield each item with its section, and with the role that it has if it is a plain text."""
        for section, role, items in (
            ("prompt", "system", self._instructions),
            ("prompt", "user", self._prompt),
            ("output", "assistant", self._output),
        ):
            for raw in items:
                yield section, role, raw

    def raw(self, number: int) -> msgspec.Raw:
        """Return one item. Raises InputDataError: there is no such item."""
        at = number
        for items in (self._instructions, self._prompt, self._output):
            if 0 <= at < len(items):
                return items[at]
            at -= len(items)
        raise InputDataError(f"the row has {len(self)} items, so there is no item {number}")

    def texts(self, number: int) -> list[RawText]:
        """Return the texts of one item. Raises InputDataError: there is no such item."""
        return texts_of(self.raw(number))


def split_item(raw: msgspec.Raw, *, number: int, section: str, role: str) -> SplitItem:
    """Return one item from its bytes. `role`: the one that it has if it is a plain text."""
    fields = fields_of(raw)
    is_string = _is_string(raw)
    kind = "message" if fields or is_string else "other"
    return SplitItem(
        number=number,
        section=section,
        kind=_short(fields.get("type")) or kind,
        role=role if is_string else _short(fields.get("role")),
        name=_short(fields.get("name")),
        call_id=_short(fields.get("call_id")),
        size=len(memoryview(raw)),
        texts=tuple(text.part() for text in _texts(raw, fields)),
        fields=tuple(fields),
    )


def texts_of(raw: msgspec.Raw) -> list[RawText]:
    """Return the texts of one item from its bytes."""
    return list(_texts(raw, fields_of(raw)))


def whole_text(raw: msgspec.Raw) -> str:
    """Return all texts of one item from its bytes, joined; images are left out."""
    return "".join(text.text for text in texts_of(raw) if text.kind != "image")


def _texts(raw: msgspec.Raw, fields: Mapping[str, msgspec.Raw]) -> Iterator[RawText]:
    kind = _short(fields.get("type")) or "message"
    if _is_string(raw):
        yield RawText("text", raw)
    elif kind == "message" and "content" in fields:
        yield from _parts("text", fields["content"])
    elif kind == "reasoning":
        for name in ("summary", "content"):
            yield from _parts("reasoning", fields.get(name))
    elif kind == "function_call" and "arguments" in fields:
        yield from _parts("arguments", fields["arguments"])
    elif kind == "function_call_output" and "output" in fields:
        yield from _parts("output", fields["output"])
    else:
        yield RawText("json", raw)


def _parts(kind: str, content: msgspec.Raw | None) -> Iterator[RawText]:
    """Yield the texts of a content, which is a string or a list of parts."""
    if content is None or _starts(content) == b"n":
        return
    if _starts(content) != b"[":
        yield RawText(kind if _is_string(content) else "json", content)
        return
    for part in items_of(content):
        fields = fields_of(part)
        text = next((fields[n] for n in ("text", "refusal") if _is_string(fields.get(n))), None)
        address = fields.get("image_url")
        if text is not None or _is_string(part):
            yield RawText(kind, part if text is None else text)
        elif address is not None and _is_string(address):
            yield RawText("image", address)
        else:
            yield RawText("json", part)


class _Response(msgspec.Struct, gc=False):
    output: list[msgspec.Raw] | None = None
    model: msgspec.Raw = msgspec.Raw(b"")


_decode_response = msgspec.json.Decoder(_Response).decode


def _split_response(response: msgspec.Raw | None) -> _Response:
    """Return the items of a response and its model, in one pass where its output is a list."""
    if response is None or _starts(response) != b"{":
        return _Response(items_of(response))
    try:
        return _decode_response(response)
    except UNREADABLE:
        fields = fields_of(response)
        return _Response(items_of(fields.get("output")), fields.get("model", msgspec.Raw(b"")))


def items_of(raw: msgspec.Raw | None) -> list[msgspec.Raw]:
    """Return the items of a list; a single text or object is one item."""
    if raw is None or _starts(raw) == b"n":
        return []
    if _starts(raw) != b"[":
        return [raw]
    try:
        return _split_list(raw)
    except UNREADABLE:  # Python's own JSON: lone surrogates, NaN
        return [msgspec.Raw(json.dumps(value).encode()) for value in json.loads(bytes(raw))]


def fields_of(raw: msgspec.Raw | None) -> Mapping[str, msgspec.Raw]:
    """Return the fields of an object; none of anything else."""
    if raw is None or _starts(raw) != b"{":
        return {}
    try:
        return _split_object(raw)
    except UNREADABLE:
        return split_row(bytes(raw)) or {}


def _starts(raw: msgspec.Raw | None) -> bytes:
    return b"" if raw is None else bytes(memoryview(raw)[:1])


def _is_string(raw: msgspec.Raw | None) -> bool:
    return _starts(raw) == b'"'


def _short(raw: msgspec.Raw | None) -> str:
    """Return a short text; empty for anything else."""
    if raw is None or not _is_string(raw) or len(memoryview(raw)) > _SHORT_BYTES:
        return ""
    value: Any = decode_value(raw)
    return value if isinstance(value, str) else ""


_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _edge(body: memoryview, at: int, *, escapes: bool) -> int:
    """Return the nearest position at or before `at` that is between characters, and not inside an
    escape or a pair of escapes.
    """
    if at <= 0 or at >= len(body):
        return max(0, min(at, len(body)))
    while at > 0 and body[at] & 0xC0 == 0x80:
        at -= 1
    while escapes and (start := _start_of_escape(body, at)) != at:
        at = start
    return at


def _start_of_escape(body: memoryview, at: int) -> int:
    """Return where the escape begins that `at` lies in; `at` itself when it lies in none."""
    for start in range(at - 1, max(at - _LONGEST_ESCAPE, -1), -1):
        if body[start] == _BACKSLASH and _is_unescaped(body, start):
            return start if start + _escape_length(body, start) > at else at
    return at


def _is_unescaped(body: memoryview, at: int) -> bool:
    """Whether an even number of backslashes stands before `at`."""
    window = bytes(body[max(at - RANGE_BYTES, 0) : at])
    return (len(window) - len(window.rstrip(b"\\"))) % 2 == 0


def _escape_length(body: memoryview, start: int) -> int:
    escape = bytes(body[start : start + _LONGEST_ESCAPE])
    if escape[1:2] != b"u":
        return 2
    # two halves that are apart are two characters: a run of high ones has an edge after each
    is_pair = (
        escape[2:4].lower() in {b"d8", b"d9", b"da", b"db"}
        and escape[6:8] == b"\\u"
        and escape[8:10].lower() in {b"dc", b"dd", b"de", b"df"}
    )
    return _LONGEST_ESCAPE if is_pair else _LONGEST_ESCAPE // 2
