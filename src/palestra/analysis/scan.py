"""Reads JSONL in blocks of lines and decodes only the top level of each row.

Numbers and texts become Python values. Of an object, only the few fields that profiling reads are
decoded (`Nested`). The items of a list are not decoded. So a response of 50 KB costs one pass over
its characters and creates no Python objects.
"""

import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from palestra.datasets import open_rows
from palestra.errors import InputDataError
from palestra.metrics import Nested, Row, Value, can_name_a_field, fields_of
from palestra.schema import (
    REVERIFY_COMMAND,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    ReverifyCommand,
    command_of_hint,
)

BLOCK_BYTES = 1 << 18
"""The size of a block of lines. The decoded block should fit in the processor's cache."""
MOST_FIELDS = 200
"""The largest number of fields in the struct of `RowReader`; rows with other fields are decoded one
by one."""
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""The exceptions of a strict decoder for text that is not JSON, nested too deeply, or not UTF-8."""

PARTIAL = "--allow-partial"


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Successive rows of a file, at least one."""

    path: Path
    texts: Sequence[bytes]
    fields: Mapping[str, Sequence[Any]]
    """Per field name, its value in each row; None where a row lacks it."""
    lines: Sequence[int]
    """The line number of each row, from 1."""
    offsets: Sequence[int]
    """The byte offset of each row in the uncompressed file."""

    def __len__(self) -> int:
        return len(self.texts)

    def field(self, name: str) -> Sequence[Any]:
        """Return the value of one field in each row; None for a row without the field."""
        return self.fields.get(name) or [None] * len(self)

    def has(self, at: int, name: str) -> bool:
        """Whether a row has the field; a null value counts too."""
        return name in (split_row(self.texts[at]) or {})

    def place(self, at: int) -> str:
        """Return the file, line and key of a row, for messages."""
        task, rollout = self.field(TASK_INDEX)[at], self.field(ROLLOUT_INDEX)[at]
        key = "" if task is None or rollout is None else f" (task {task}, rollout {rollout})"
        return f"{self.path} line {self.lines[at]}{key}"


class RecordedObject(Nested, gc=False):
    """What is decoded of an object inside a row of a failures file: also the fields of the command
    that verifies its response.
    """

    command: Any = None
    needs_session: Any = None
    names_judge: Any = None


Refuse = Callable[[int, bytes], None]
"""Takes the number and the bytes of a line that is not a row."""


class RowReader:
    """Decodes rows. `group_by`: the name of a field or, as two or more names, the path of a field
    inside an object. `nested`: what is decoded of an object inside a row.

    Most rows of a run have the same fields. So rows are decoded into a struct of the fields found
    so far, which is the fastest way. A row with a new field does not fit the struct; the block is
    then decoded row by row and the struct gets the new field.
    """

    def __init__(self, group_by: Sequence[str] = (), *, nested: type[Nested] = Nested) -> None:
        self._nested = nested
        self._inner = group_by[1] if len(group_by) > 1 else ""
        if self._inner and can_name_a_field(self._inner):
            family = ("family", Any, msgspec.field(name=self._inner, default=None))
            nested_type: Any = msgspec.defstruct(
                "NestedWithFamily", [family], bases=(nested,), gc=False
            )
            self._nested = nested_type
        kinds: Any = bool | int | float | None | str | self._nested | list[msgspec.Raw]
        self._kinds = kinds
        self._decode_any = msgspec.json.Decoder(dict[str, kinds]).decode
        self._names: tuple[str, ...] = ()
        self._learn(())

    @property
    def names(self) -> Sequence[str]:
        """The names of the fields of the rows so far."""
        return self._names

    def blocks(
        self, path: Path, *, torn: list[str] | None = None, may_be_empty: bool = False
    ) -> Iterator[RowBlock]:
        """Yield the rows of a file in blocks. An incomplete last line raises InputDataError; with
        `torn`, a notice is appended there instead.
        """

        def refuse(line: int, text: bytes) -> None:
            if text.endswith(b"\n"):
                raise _malformed(path, line, text)
            if torn is None:
                raise _torn(path, line)
            torn.append(f"{path}: line {line} is torn (no end of line) and was left out")

        first, offset, empty = 1, 0, True
        for texts in _texts(path):
            offsets = list(accumulate(map(len, texts), initial=offset))
            lines = range(first, first + len(texts))
            block = self.decode(path, texts, lines, offsets[:-1], refuse)
            first, offset = first + len(texts), offsets[-1]
            if len(block):
                empty = False
                yield block
        if empty and not may_be_empty:
            raise InputDataError(
                f"{path} has no rows",
                hint="`palestra diagnose` says why nothing was scored; `palestra profile "
                "--allow-partial` makes a report of the failures",
            )

    def decode(
        self,
        path: Path,
        texts: Sequence[bytes],
        lines: Sequence[int],
        offsets: Sequence[int],
        refuse: Refuse,
    ) -> RowBlock:
        """Return the rows of some lines of a file. Blank lines are left out; so is a line that is
        not a row, which `refuse` takes.
        """
        try:
            rows = map(self._decode, texts)
            columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
            fields = dict(zip(self._names, columns, strict=True))
            return RowBlock(path, texts, fields, lines, offsets)
        except UNREADABLE:
            # a field of a new name, or a line that is blank, broken, or Python's own JSON
            block = self._one_by_one(path, texts, lines, offsets, refuse)
            self._learn(block.fields)
            return block

    def _learn(self, names: Iterable[str]) -> None:
        names = filter(can_name_a_field, names)
        known_names = tuple(dict.fromkeys((*self._names, *names)))
        if self._names and (known_names == self._names or len(known_names) > MOST_FIELDS):
            return
        self._names = known_names
        fields = [
            (
                f"f{index}",
                Any if name == REWARD_COMPONENTS else self._kinds,
                msgspec.field(name=name, default=None),
            )
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
        refuse: Refuse,
    ) -> RowBlock:
        rows: list[Row] = []
        positions: list[int] = []
        for at, text in enumerate(texts):
            if not text.strip():
                continue
            row = self._row(text)
            if row is not None:
                rows.append(row)
                positions.append(at)
            else:
                refuse(lines[at], text)
        return RowBlock(
            path,
            [texts[at] for at in positions],
            fields_of(rows),
            array("q", (lines[at] for at in positions)),
            [offsets[at] for at in positions],
        )

    def _row(self, text: bytes) -> Row | None:
        """Return one row; None when the text is not a JSON object."""
        try:
            row = self._decode_any(text)
        except UNREADABLE:
            return self._leniently(text)
        if REWARD_COMPONENTS in row:
            row[REWARD_COMPONENTS] = decode_value(_split(text)[REWARD_COMPONENTS])
        return row

    def _leniently(self, text: bytes) -> Row | None:
        row = _lenient_object(text)
        return row and {
            name: value if name == REWARD_COMPONENTS else self._shallow(value)
            for name, value in row.items()
        }

    def _shallow(self, value: Any) -> Value:
        if isinstance(value, Mapping):
            names = self._nested.__struct_encode_fields__
            fields = zip(self._nested.__struct_fields__, map(value.get, names), strict=True)
            return self._nested(**dict(fields))
        return [] if isinstance(value, list) else value


def recorded_commands(block: RowBlock) -> Iterator[ReverifyCommand | None]:
    """Yield the command that each row of a failures file records; None without one. The block is of a
    reader with `nested=RecordedObject`.
    """
    for value, hint in zip(block.field(REVERIFY_COMMAND), block.field("hint"), strict=True):
        yield ReverifyCommand.of(value) or command_of_hint(hint)


def split_row(text: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a JSON object, each as its original bytes; None for any other text."""
    try:
        return _split(text)
    except UNREADABLE:
        return _split_leniently(text)


def decode_value(raw: msgspec.Raw) -> Any:
    """Decode one JSON value; large integers keep all their digits."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return json.loads(bytes(raw))


_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _split_leniently(text: bytes) -> dict[str, msgspec.Raw] | None:
    row = _lenient_object(text)
    return row and {name: msgspec.Raw(json.dumps(value).encode()) for name, value in row.items()}


def _lenient_object(text: bytes) -> JsonDict | None:
    """Decode a JSON object with Python's `json`, which also accepts NaN and lone surrogates; None
    for any other text.
    """
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _texts(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file in lists of about BLOCK_BYTES."""
    with open_rows(path) as file:
        try:
            while texts := file.readlines(BLOCK_BYTES):
                yield texts
        except (OSError, EOFError, zlib.error) as error:
            raise InputDataError(
                f"cannot read {path}: {error}",
                hint="the file is damaged or incomplete: copy or write it again",
            ) from error


def _malformed(path: Path, number: int, text: bytes) -> InputDataError:
    is_utf8, reason = why_no_row(text)
    if not is_utf8:
        return InputDataError(
            f"{path} is not UTF-8: line {number}, {reason}", hint="convert the file to UTF-8"
        )
    of_rows = " of rows" if reason.startswith("JSON") else ""
    return InputDataError(
        f"{path} is not JSONL{of_rows}: line {number} is {reason}",
        hint="each line must be one complete JSON object",
    )


def why_no_row(text: bytes) -> tuple[bool, str]:
    """Return whether a line that is not a row is UTF-8, and why it is not a row: `not JSON (…)`."""
    try:
        json.loads(text)
    except UnicodeDecodeError as error:
        return False, f"byte {error.start} ({error.reason})"
    except (ValueError, RecursionError) as error:
        return True, f"not JSON ({error})"
    return True, "JSON, but not a JSON object"


def _torn(path: Path, number: int) -> InputDataError:
    return InputDataError(
        f"{path}: the last line ({number}) is incomplete: it has no line end and is not a valid "
        "row",
        hint="the process that wrote the file was stopped: resume the run to write this row "
        f"again, or, if the file has rollouts, leave the row out with {PARTIAL}",
    )
