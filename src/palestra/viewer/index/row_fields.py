"""Takes the fields at the top level of result rows: every number, boolean and short text."""

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.analysis import RowBlock
from palestra.metrics import INDICES, RESPONSE, ColumnBuilder
from palestra.schema import AGENT_REF, CREATE_PARAMS, FAILURE_CLASS
from palestra.viewer.index.heaps import HeapWriter, TextCodes
from palestra.viewer.index.layout import NO_TEXT
from palestra.viewer.index.storage import StoredColumns

SHORT_TEXT: Final = 64
"""The largest number of characters of a text that is a field."""
MOST_FIELDS: Final = 200
"""The largest number of fields taken from rows, apart from those that every rollout has."""
_NOT_FIELDS: Final = INDICES | {AGENT_REF, RESPONSE, CREATE_PARAMS, FAILURE_CLASS}


class FieldState(msgspec.Struct):
    """A field taken from rows: its column, and what its values are."""

    column: str
    whole: bool = True
    boolean: bool = True


class FieldStates(msgspec.Struct):
    """The fields taken from result rows, in order of appearance."""

    numbers: dict[str, FieldState] = {}
    texts: dict[str, str] = {}
    left_out: int = 0
    """How many fields beyond MOST_FIELDS were left out, counted once per batch."""


class FieldWriter:
    """Collects the fields of rows until `flush`. `rows`: how many rows are in the columns already."""

    def __init__(
        self, columns: StoredColumns, states: FieldStates, texts: HeapWriter, *, rows: int
    ) -> None:
        self._columns, self._states, self._texts = columns, states, texts
        self._stored_rows, self._rows = rows, 0
        self._builder = ColumnBuilder()
        self._boolean: dict[str, bool] = {}
        self._text_parts: dict[str, list[tuple[int, npt.NDArray[np.int32]]]] = {}
        self._codes: dict[str, TextCodes] = {}

    @property
    def is_large(self) -> bool:
        """Whether there are so many fields that they should be flushed."""
        return len(self._builder) > 2 * MOST_FIELDS

    def add(self, block: RowBlock) -> None:
        """Add the fields of rows."""
        self._builder.add(block.fields, len(block))
        for name, values in block.fields.items():
            kinds = set(map(type, values))
            if bool in kinds or int in kinds or float in kinds:
                # Texts beside the numbers do not count: they may be in a batch of their own.
                only = kinds.isdisjoint({int, float})
                self._boolean[name] = self._boolean.get(name, True) and only
            if str in kinds and name not in _NOT_FIELDS and self._may_have_text(name):
                codes = self._coded(name).codes(values)
                if (codes != NO_TEXT).any():
                    self._text_parts.setdefault(name, []).append((self._rows, codes))
        self._rows += len(block)

    def flush(self) -> None:
        """Write what was collected. Raises OSError or StorageFull."""
        if self._rows:
            self._flush_numbers(self._rows)
            self._flush_texts(self._rows)
        self._stored_rows += self._rows
        self._rows = 0

    def _coded(self, name: str) -> TextCodes:
        if name not in self._codes:
            self._codes[name] = TextCodes(self._texts, longest=SHORT_TEXT)
        return self._codes[name]

    def _may_have_text(self, name: str) -> bool:
        texts = self._states.texts
        if name in texts or len(texts) + len(self._text_parts) < MOST_FIELDS:
            return True
        self._states.left_out += name not in self._text_parts
        return name in self._text_parts

    def _flush_numbers(self, rows: int) -> None:
        built = self._builder.build()
        self._builder = ColumnBuilder()
        states = self._states.numbers
        for name, values in built.values.items():
            if name not in states:
                if len(states) >= MOST_FIELDS:
                    self._states.left_out += 1
                    continue
                states[name] = FieldState(f"results.number{len(states)}")
                self._pad(states[name].column, np.nan, np.float64)
            state = states[name]
            state.whole &= name in built.whole
            state.boolean &= self._boolean.get(name, False)
            self._columns.append(state.column, values)
        for name, state in states.items():
            if name not in built.values:
                self._columns.append(state.column, np.full(rows, np.nan))
        self._boolean = {}

    def _flush_texts(self, rows: int) -> None:
        columns = self._states.texts
        for name in self._text_parts:
            if name not in columns:
                columns[name] = f"results.text{len(columns)}"
                self._pad(columns[name], NO_TEXT, np.int32)
        for name, column in columns.items():
            values = np.full(rows, NO_TEXT, np.int32)
            for first, codes in self._text_parts.get(name, ()):
                values[first : first + len(codes)] = codes
            self._columns.append(column, values)
        self._text_parts = {}

    def _pad(self, column: str, value: float, dtype: Any) -> None:
        """Write a column for the rows before a field's first appearance."""
        self._columns.append(column, np.full(self._stored_rows, value, dtype))
