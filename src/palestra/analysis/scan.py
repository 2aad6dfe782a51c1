"""Reads JSONL in blocks of lines, decoding of each row its top level and no more.

Numbers, texts and names come as Python values; of an object only the few fields that profiling
reads (`Nested`), and a list not at all. So a 50 KB response costs one pass over its characters
and no Python objects.
"""

import json
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from palestra.analysis.sources import open_rows
from palestra.errors import InputDataError
from palestra.metrics import Nested, Row, Value, can_name_a_field, fields_of
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonDict

BLOCK_BYTES = 1 << 18
"""Lines taken at once: what they are decoded to should stay in the processor's cache."""
MOST_FIELDS = 200
"""Rows with fields of more names than this are decoded without learning the rest."""
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a strict decoder raises at a text that is no JSON, is nested too deeply, or is no UTF-8."""

PARTIAL = "--allow-partial (++allow_partial_rollouts=True)"


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a file, one after another, at least one."""

    path: Path
    texts: Sequence[bytes]
    fields: Mapping[str, Sequence[Any]]
    """By field, its value in each row; None where a row lacks it."""
    lines: Sequence[int]
    """The number of each row's line, from 1."""
    offsets: Sequence[int]
    """Where each row begins, in bytes of the unpacked file."""

    def __len__(self) -> int:
        return len(self.texts)

    def field(self, name: str) -> Sequence[Any]:
        """One field of each row, also when none has it."""
        return self.fields.get(name) or [None] * len(self)

    def has(self, at: int, name: str) -> bool:
        """Whether a row has the field, be it null."""
        return name in (split_row(self.texts[at]) or {})

    def place(self, at: int) -> str:
        """A row's file, line and key, for a message."""
        task, rollout = self.field(TASK_INDEX)[at], self.field(ROLLOUT_INDEX)[at]
        key = "" if task is None or rollout is None else f" (task {task}, rollout {rollout})"
        return f"{self.path} line {self.lines[at]}{key}"


class RowReader:
    """Decodes rows. `group_by` names a field, or as two or more names one inside an object.

    Rows of a run mostly have the same fields. So they are decoded into a struct of the fields
    seen so far, which is the fastest way; a row with a field of another name is refused by it,
    and teaches it that name.
    """

    def __init__(self, group_by: Sequence[str] = ()) -> None:
        self._nested: type[Nested] = Nested
        self._inner = group_by[1] if len(group_by) > 1 else ""
        if self._inner and can_name_a_field(self._inner):
            family = ("family", Any, msgspec.field(name=self._inner, default=None))
            nested_type: Any = msgspec.defstruct(
                "NestedWithFamily", [family], bases=(Nested,), gc=False
            )
            self._nested = nested_type
        kinds: Any = bool | int | float | None | str | self._nested | list[msgspec.Raw]
        self._kinds = kinds
        self._decode_any = msgspec.json.Decoder(dict[str, kinds]).decode
        self._names: tuple[str, ...] = ()
        self._learn(())

    def blocks(
        self, path: Path, *, torn: list[str] | None = None, may_be_empty: bool = False
    ) -> Iterator[RowBlock]:
        """Every row of a file. A torn last line is an error, or, given `torn`, noted there."""
        first, offset, empty = 1, 0, True
        for texts in _texts(path):
            offsets = list(accumulate(map(len, texts), initial=offset))
            lines = range(first, first + len(texts))
            try:
                rows = map(self._decode, texts)
                columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
                fields = dict(zip(self._names, columns, strict=True))
                block = RowBlock(path, texts, fields, lines, offsets[:-1])
            except UNREADABLE:
                # a field of a new name, or a line that is blank, broken, or Python's own JSON
                block = self._one_by_one(path, texts, lines, offsets, torn)
                self._learn(block.fields)
            first, offset = first + len(texts), offsets[-1]
            if len(block):
                empty = False
                yield block
        if empty and not may_be_empty:
            raise InputDataError(
                f"{path} holds no rows",
                hint="look whether the run that should have written it got that far",
            )

    def _learn(self, names: Iterable[str]) -> None:
        names = filter(can_name_a_field, names)
        known_names = tuple(dict.fromkeys((*self._names, *names)))
        if self._names and (known_names == self._names or len(known_names) > MOST_FIELDS):
            return
        self._names = known_names
        fields = [
            (f"f{index}", self._kinds, msgspec.field(name=name, default=None))
            for index, name in enumerate(known_names)
        ]
        layout = msgspec.defstruct("Layout", fields, gc=False, forbid_unknown_fields=True)
        self._decode = msgspec.json.Decoder(layout).decode

    def _one_by_one(
        self,
        path: Path,
        texts: Sequence[bytes],
        lines: Sequence[int],
        offsets: Sequence[int],
        torn: list[str] | None,
    ) -> RowBlock:
        rows: list[Row] = []
        positions: list[int] = []
        for at, text in enumerate(texts):
            if text.isspace():
                continue
            row = self._row(text)
            if row is not None:
                rows.append(row)
                positions.append(at)
            elif text.endswith(b"\n"):
                raise _malformed(path, lines[at], text)
            elif torn is None:
                raise _torn(path, lines[at])
            else:
                torn.append(f"{path}: line {lines[at]} is torn (no end of line) and was left out")
        return RowBlock(
            path,
            [texts[at] for at in positions],
            fields_of(rows),
            array("q", (lines[at] for at in positions)),
            [offsets[at] for at in positions],
        )

    def _row(self, text: bytes) -> Row | None:
        """One row, or None when the text is something else."""
        try:
            return self._decode_any(text)
        except UNREADABLE:
            return self._leniently(text)

    def _leniently(self, text: bytes) -> Row | None:
        row = _lenient_object(text)
        return row and {name: self._shallow(value) for name, value in row.items()}

    def _shallow(self, value: Any) -> Value:
        if isinstance(value, Mapping):
            fields = {
                name: value.get(name) for name in ("usage", "incomplete_details", "name", "type")
            }
            return self._nested(
                **fields, **({"family": value.get(self._inner)} if self._inner else {})
            )
        return [] if isinstance(value, list) else value


def split_row(text: bytes) -> dict[str, msgspec.Raw] | None:
    """The fields of a JSON object, each as the bytes it was; None for anything else."""
    try:
        return _split(text)
    except UNREADABLE:
        return _split_leniently(text)


def decode_value(raw: msgspec.Raw) -> Any:
    """One value as Python objects; integers keep all their digits."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return json.loads(bytes(raw))


_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _split_leniently(text: bytes) -> dict[str, msgspec.Raw] | None:
    row = _lenient_object(text)
    return row and {name: msgspec.Raw(json.dumps(value).encode()) for name, value in row.items()}


def _lenient_object(text: bytes) -> JsonDict | None:
    """A JSON object; what Python's own json writes is accepted too: NaN, lone surrogates."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _texts(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file, about BLOCK_BYTES at a time."""
    with open_rows(path) as file:
        try:
            while texts := file.readlines(BLOCK_BYTES):
                yield texts
        except (OSError, EOFError, zlib.error) as error:
            raise InputDataError(
                f"cannot read {path}: {error}",
                hint="the file is broken or was cut short: copy or write it again",
            ) from error


def _malformed(path: Path, number: int, text: bytes) -> InputDataError:
    try:
        json.loads(text)
    except UnicodeDecodeError as error:
        return InputDataError(
            f"{path} is not UTF-8: line {number}, byte {error.start} ({error.reason})",
            hint="write the file again as UTF-8",
        )
    except (ValueError, RecursionError) as error:
        return InputDataError(
            f"{path} is not JSONL: line {number} is not JSON ({error})",
            hint="each line holds one whole JSON object",
        )
    return InputDataError(
        f"{path} is not JSONL of rows: line {number} is JSON, but not an object",
        hint="each line holds one whole JSON object",
    )


def _torn(path: Path, number: int) -> InputDataError:
    return InputDataError(
        f"{path}: the last line ({number}) is torn: it has no end of line and is not a row",
        hint="whatever wrote the file was stopped in the middle: resume the run to write that row "
        f"again, or, if these are rollouts, leave it out with {PARTIAL}",
    )
