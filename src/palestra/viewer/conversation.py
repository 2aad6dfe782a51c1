"""The conversation of one rollout: its items, read from the rows of the run's files in parts.

A scored row holds prompt and output. A failed rollout has its prompt in the inputs and what was
kept of the answer in a row of the failures. No row is decoded whole.
"""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, final

import msgspec

from palestra.analysis import UNREADABLE, split_row
from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, GENERATION_IDS
from palestra.viewer.index import (
    IndexedPlace,
    IndexSnapshot,
    RowPieces,
    RunPart,
    SplitItem,
    read_row,
    split_item,
    whole_text,
)

ITEM_BYTES: Final = 512
"""One item with its pair and its turn takes no more memory, its texts aside."""
REQUEST_AND_RESPONSE: Final = frozenset({"response", CREATE_PARAMS})
"""Fields of a failed attempt that may be large, and do not say why it failed."""
MOST_DECODED_BYTES: Final = 1 << 22
"""A field of a row that is longer is not decoded."""


class _Head(msgspec.Struct, gc=False):
    """What a conversation needs of each of its items."""

    type: str | None = None
    role: str | None = None
    name: str | None = None
    call_id: str | None = None
    generation_token_ids: msgspec.Raw = msgspec.Raw(b"")


_decode_head = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True, slots=True)
class ConversationItem:
    """One item. `position`: in the conversation, from 0. `source`: the row that holds it, and
    `number` its number there.
    """

    position: int
    source: int
    number: int
    section: str
    """`prompt` or `output`."""
    type: str
    """`message`, or the item's own type."""
    role: str
    name: str
    """The name of the called tool."""
    call_id: str
    size: int
    """The length of the item in the file, in bytes."""
    has_tokens: bool

    @property
    def kind(self) -> str:
        """A role, or `reasoning`, `call`, `result` or `other`."""
        if self.type == "message":
            return self.role or "assistant"
        if self.type == "reasoning":
            return "reasoning"
        if self.type.endswith("_call_output"):
            return "result"
        return "call" if self.type.endswith("_call") else "other"


@final
class Transcript:
    """The items of one rollout, split once. Items are read when they are needed, and not kept."""

    def __init__(
        self, row_places: Sequence[IndexedPlace], source: Literal["scored", "failed", "inputs"]
    ) -> None:
        """Create it from the places of its rows, the row with the prompt first."""
        self.places = tuple(row_places)
        self.source: Literal["scored", "failed", "inputs"] = source
        self._splits: _Splits | None = None
        self._lock = threading.Lock()

    @property
    def items(self) -> tuple[ConversationItem, ...]:
        """All items: the prompt's, then the output's."""
        return self._split.items

    @property
    def model(self) -> str:
        """The name of the model that answered; empty when the row has none."""
        return self._split.rows[-1].model

    @property
    def memory_bytes(self) -> int:
        """At most how much memory it takes; 0 before its rows are split."""
        return 0 if self._splits is None else self._splits.memory_bytes

    @property
    def _split(self) -> "_Splits":
        with self._lock:  # several requests of one page begin together
            if self._splits is None:
                self._splits = _Splits.of(self.places)
            return self._splits

    @cached_property
    def pairs(self) -> dict[int, int]:
        """The position of the output of each call, and of the call of each output."""
        calls: dict[str, int] = {}
        pairs: dict[int, int] = {}
        for item in self.items:
            call_id = item.call_id
            if item.kind == "call" and call_id:
                calls[call_id] = item.position
            elif item.kind == "result" and call_id in calls:
                call = calls.pop(call_id)
                pairs[call], pairs[item.position] = item.position, call
        return pairs

    @cached_property
    def turns(self) -> dict[int, int]:
        """The number of the model turn of each item of the model, from 0."""
        turns: dict[int, int] = {}
        number, is_inside = -1, False
        for item in self.items:
            is_models = item.section == "output" and item.kind in {
                "assistant",
                "reasoning",
                "call",
            }
            if is_models:
                number += not is_inside
                turns[item.position] = number
            is_inside = is_models
        return turns

    def details(self, items: Sequence[ConversationItem]) -> list[SplitItem]:
        """Return the sizes and beginnings of the texts of items."""
        return [
            split_item(raw, number=item.number, section=item.section, role=item.role)
            for item, raw in zip(items, self.raws(items), strict=True)
        ]

    def raws(self, items: Sequence[ConversationItem]) -> list[msgspec.Raw]:
        """Return items as they are in the files. Raises RunChanged."""
        raws: dict[tuple[int, int], msgspec.Raw] = {}
        for source, row in enumerate(self._split.rows):
            numbers = [item.number for item in items if item.source == source]
            if numbers:
                keys = ((source, number) for number in numbers)
                raws |= zip(keys, row.items(numbers), strict=True)
        return [raws[item.source, item.number] for item in items]

    def read(self, item: ConversationItem) -> Any:
        """Return an item, decoded. Raises InputDataError: it is no JSON."""
        return decoded(bytes(self.raws([item])[0]))

    def texts(self, items: Sequence[ConversationItem]) -> Iterator[tuple[ConversationItem, str]]:
        """Yield the whole text of each item."""
        for item, raw in zip(items, self.raws(items), strict=True):
            yield item, whole_text(raw)

    def small_fields(self, without: frozenset[str]) -> dict[str, Any]:
        """Return the fields of the last row that are small enough to decode, without some names."""
        fields = self._split.rows[-1].fields(without=without, most_bytes=MOST_DECODED_BYTES)
        return {name: decoded(bytes(raw)) for name, raw in fields.items()}

    def at(self, position: int) -> ConversationItem:
        """Return an item. Raises InputDataError: there is no such item."""
        if not 0 <= position < len(self.items):
            raise InputDataError(f"the conversation has {len(self.items)} items, no {position}")
        return self.items[position]

    def output(self, number: int) -> ConversationItem | None:
        """Return item `number` of `response.output`; None when there is none."""
        outputs = [item for item in self.items if item.section == "output"]
        return outputs[number] if 0 <= number < len(outputs) else None


@dataclass(frozen=True, slots=True)
class _Splits:
    """The rows of a conversation, split into its items."""

    items: tuple[ConversationItem, ...]
    rows: tuple[RowPieces, ...]
    memory_bytes: int

    @classmethod
    def of(cls, row_places: Sequence[IndexedPlace]) -> "_Splits":
        items: list[ConversationItem] = []
        rows: list[RowPieces] = []
        texts: dict[str, str] = {}  # the items of a conversation have few names
        for source, row_place in enumerate(row_places):
            pieces, split = RowPieces.split(row_place)
            rows.append(pieces)
            for number, (section, role, raw) in enumerate(split.raws()):
                # the prompt of a failed rollout is in its inputs
                if source == 0 or section == "output":
                    items.append(_item(len(items), source, number, section, role, raw, texts))
        memory_bytes = len(items) * ITEM_BYTES + sum(map(sys.getsizeof, texts))
        return cls(tuple(items), tuple(rows), memory_bytes + sum(r.memory_bytes for r in rows))


def _item(
    position: int,
    source: int,
    number: int,
    section: str,
    role: str,
    raw: msgspec.Raw,
    texts: dict[str, str],
) -> ConversationItem:
    """Return one item. `texts`: the texts of the items before it, which are shared."""
    first = bytes(memoryview(raw)[:1])
    try:
        head = _decode_head(raw) if first == b"{" else _Head(role=role)
    except UNREADABLE:  # fields of other types, or Python's own JSON
        head = _lenient_head(raw)
    usual = "message" if first in {b"{", b'"'} else "other"
    kind, role, name, call_id = (
        texts.setdefault(text, text)
        for text in (head.type or usual, head.role or "", head.name or "", head.call_id or "")
    )
    return ConversationItem(
        position=position,
        source=source,
        number=number,
        section=section,
        type=kind,
        role=role,
        name=name,
        call_id=call_id,
        size=len(memoryview(raw)),
        has_tokens=bytes(memoryview(head.generation_token_ids)[:1]) == b"[",
    )


def _lenient_head(raw: msgspec.Raw) -> _Head:
    fields = decoded(bytes(raw))
    texts = {
        name: fields[name]
        for name in ("type", "role", "name", "call_id")
        if isinstance(fields.get(name), str)
    }
    tokens = b"[" if isinstance(fields.get(GENERATION_IDS), list) else b""
    return _Head(**texts, generation_token_ids=msgspec.Raw(tokens))


def conversation_of(snapshot: IndexSnapshot, row: int) -> Transcript:
    """Return the conversation of a rollout. Raises InputDataError: no file holds its row."""
    result = snapshot.place(row, RunPart.RESULT)
    if result is not None:
        return Transcript([result], "scored")
    inputs, failure = snapshot.place(row, RunPart.INPUT), kept_answer(snapshot, row)
    row_places = [row_place for row_place in (inputs, failure) if row_place is not None]
    if not row_places:
        failure = snapshot.place(row, RunPart.FAILURE)
        row_places = [] if failure is None else [failure]
    if not row_places:
        raise InputDataError("no file holds a row of this rollout")
    return Transcript(row_places, "inputs" if failure is None else "failed")


def kept_answer(snapshot: IndexSnapshot, row: int) -> IndexedPlace | None:
    """Return the place of the last failed attempt that kept the model's answer."""
    for row_place in reversed(snapshot.attempts(row)):
        if b'"response"' in read_row(row_place) and "response" in row_fields(row_place):
            return row_place
    return None


def row_fields(row_place: IndexedPlace) -> dict[str, msgspec.Raw]:
    """Return the fields of a row, not decoded. Raises InputDataError: the row is no object."""
    fields = split_row(read_row(row_place))
    if fields is None:
        raise InputDataError(f"{row_place.path} line {row_place.line} is no JSON object")
    return fields


def small_fields(row_place: IndexedPlace, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields of a row that are small enough to decode, without some names."""
    return {
        name: decoded(bytes(raw))
        for name, raw in row_fields(row_place).items()
        if name not in without and len(bytes(raw)) <= MOST_DECODED_BYTES
    }


def decoded(raw: bytes) -> Any:
    """Decode JSON as it is stored: NaN and lone surrogates, too. Raises InputDataError."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputDataError(f"this is not JSON: {error}") from error


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as the page counts."""
    return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)
