"""A table of rollouts or tasks: its fields, and selecting, sorting, counting and paging its rows."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from palestra.analysis import Query, absent_values, parse_query
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.metrics import FloatArray, IntArray
from palestra.viewer.index.columns import Column, LongColumn, NumberColumn, TextColumn
from palestra.viewer.index.selecting import Selecting

CACHED_BYTES: Final = 64 << 20
"""The largest size of the columns of a table that are kept in memory between questions."""
_DENSE_BINS: Final = 64
_LONG_TAIL: Final = 20.0
"""A largest value of so many medians: bins of equal width would put nearly all rows into the first."""

A = TypeVar("A", bound=npt.NDArray[Any])


class FieldKind(StrEnum):
    """How a field compares."""

    NUMBER = "number"
    """float64; NaN where a row lacks the field."""
    BOOLEAN = "boolean"
    """As NUMBER, with 0 and 1 only."""
    TEXT = "text"
    """A text of at most 64 characters."""
    TEXTS = "texts"
    """Several texts in each row, such as the tools that were called."""
    LONG = "long"
    """A text in the heap: answer, prompt, message. It can be searched and shown, not sorted."""


@dataclass(frozen=True, slots=True)
class TableField:
    """A field of a table. `whole`: every value is an integer."""

    name: str
    kind: FieldKind
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many of the selected rows have a value. `value` is None for rows without the field."""

    value: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of a numeric field. Bin i reaches from `edges[i]` to `edges[i + 1]`."""

    edges: Sequence[float]
    counts: Sequence[int]
    """Of the selected rows."""
    all_counts: Sequence[int]
    """Of all rows of the table."""
    absent: int
    """The number of selected rows without the field."""


@dataclass(frozen=True, slots=True)
class TablePage:
    """Rows of a table, and the number of all selected rows."""

    total: int
    start: int
    numbers: Sequence[int]
    rows: Sequence[Mapping[str, Any]]
    """Per row, the value of each requested field; None where the row lacks it."""


class RowTable:
    """The rows of one snapshot. `columns`: by field; `words`: the fields that a word is looked for
    in.
    """

    def __init__(self, rows: int, columns: Mapping[str, Column], *, words: Sequence[str]) -> None:
        self._rows, self._columns, self._words = rows, columns, words
        self.fields: Mapping[str, TableField] = {
            name: _field(name, column) for name, column in columns.items()
        }
        self._cache = _Cache()

    def __len__(self) -> int:
        return self._rows

    def numbers(self, name: str) -> FloatArray:
        """Return a numeric field, one value per row; NaN where a row lacks it. Raises ConfigError:
        the table has no such numeric field.
        """
        column = self._column(name)
        if not isinstance(column, NumberColumn):
            raise ConfigError(f"the field {name!r} is no number")
        return self._cache.get(name, column.values)

    def select(self, query: Query | str) -> IntArray:
        """Return the numbers of the rows that match, in table order; `sort:` of the query decides
        the order when it is there. A query with `text:` terms selects every row that may match;
        `search_text` decides which do.

        Raises QueryError: the query cannot be read, or names a field that the table lacks.
        """
        query = parse_query(query) if isinstance(query, str) else query
        query.check_fields([*self.fields])
        query.check_numbers([n for n, c in self._columns.items() if isinstance(c, NumberColumn)])
        rows = np.flatnonzero(self.selecting().mask(query))
        return self.sort(rows, query.sort) if query.sort else rows

    def absent_values(self, query: Query | str) -> list[str]:
        """Return one sentence for each text that the query asks for and no row of the table has."""
        query = parse_query(query) if isinstance(query, str) else query
        return absent_values(query, self.text_counts)

    def text_counts(self, name: str) -> Mapping[str, int]:
        """Return how many rows have each text of a field, the most frequent first; empty for a field
        of another kind, and for one that no row has.
        """
        column = self._columns.get(name)
        if not isinstance(column, TextColumn):
            return {}
        every_row = np.arange(self._rows, dtype=np.int64)
        values = self.facet(every_row, name, limit=self._rows)
        return {v.value: v.count for v in values if v.value is not None}

    def selecting(self) -> Selecting:
        """Return what decides the terms of queries for all rows."""
        return Selecting(self._rows, self._columns, self._words, self._values)

    def sort(self, rows: IntArray, by: str) -> IntArray:
        """Return `rows`, which are in table order, in the order of a field, descending when `by`
        starts with `-`. Rows without the field come last. Rows with equal values stay in table
        order.
        """
        name = by.removeprefix("-")
        order = self._cache.get(f"sort {by}", lambda: self._order(name, descending=by != name))
        if len(rows) == self._rows:
            return order
        is_selected = np.zeros(self._rows, np.bool_)
        is_selected[rows] = True
        return order[is_selected[order]]

    def page(
        self, rows: IntArray, *, start: int = 0, count: int = 100, fields: Sequence[str] = ()
    ) -> TablePage:
        """Return the values of `count` rows from position `start` of `rows`."""
        numbers = rows[start : start + count]
        values = [self._column(name).shown(numbers) for name in fields]
        page_rows = [dict(zip(fields, row, strict=True)) for row in zip(*values, strict=True)]
        return TablePage(len(rows), start, numbers.tolist(), page_rows or [{} for _ in numbers])

    def facet(self, rows: IntArray, name: str, *, limit: int = 50) -> Sequence[ValueCount]:
        """Count the values of a text field, the most frequent first. A row of a field with several
        texts counts for each.
        """
        column = self._column(name)
        if not isinstance(column, TextColumn):
            raise ConfigError(f"the values of {name!r} are not counted: it is no short text")
        codes = self._of(rows, name)
        counts = np.bincount(codes + 1)
        present = np.flatnonzero(counts[1:])
        totals: Counter[str | None] = Counter()
        for text, count in zip(
            column.names.texts(present.tolist()), counts[present + 1].tolist(), strict=True
        ):
            parts = text.split(column.separator) if column.separator else [text]
            for part in filter(None, parts) if column.separator else parts:
                totals[part] += count
        if len(counts) and counts[0]:
            totals[None] = int(counts[0])
        ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0] or ""))
        return [ValueCount(value, count) for value, count in ordered[:limit]]

    def histogram(self, rows: IntArray, name: str, *, bins: int = 40) -> Histogram:
        """Count the values of a numeric field in bins of equal width. Whole numbers in a small range
        get a bin each; positive ones with a long tail, bins that grow by a factor.
        """
        values = self.numbers(name)
        is_present = np.isfinite(values)
        present = values[is_present]
        absent = int(np.sum(~is_present[rows]))
        if not len(present):
            return Histogram([], [], [], absent)
        edges, at = self._binned(present, bins, is_whole=self.fields[name].whole)
        positions = np.full(len(values), -1, np.int64)
        positions[is_present] = at
        chosen = positions[rows]
        counts, all_counts = (
            np.bincount(numbers, minlength=len(edges) - 1) for numbers in (chosen[chosen >= 0], at)
        )
        return Histogram(edges.tolist(), counts.tolist(), all_counts.tolist(), absent)

    def _binned(
        self, present: FloatArray, bins: int, *, is_whole: bool
    ) -> tuple[FloatArray, IntArray]:
        """Return the edges of the bins, and the bin of each value."""
        low, high = float(present.min()), float(present.max())
        if is_whole and high - low < _DENSE_BINS:
            return np.arange(low, high + 2) - 0.5, (present - low).astype(np.int64)
        if low == high:
            return np.array([low, high]), np.zeros(len(present), np.int64)
        if low > 0 and high > _LONG_TAIL * float(np.median(present)):
            edges = np.geomspace(low, high, bins + 1)
            at = np.searchsorted(edges, present, side="right") - 1
        else:
            edges = np.linspace(low, high, bins + 1)
            at = ((present - low) * (bins / (high - low))).astype(np.int64)
        return edges, np.clip(at, 0, bins - 1)

    def _column(self, name: str) -> Column:
        if name not in self._columns:
            near = did_you_mean(name, self._columns)
            raise ConfigError(f"there is no field {name!r}{near}")
        return self._columns[name]

    def _values(self, name: str) -> npt.NDArray[Any]:
        """Return the numbers or codes of a field, for all rows."""
        column = self._column(name)
        if isinstance(column, LongColumn):
            return column.pointers
        values = column.values if isinstance(column, NumberColumn) else column.codes
        return self._cache.get(name, values)

    def _of(self, rows: IntArray, name: str) -> npt.NDArray[Any]:
        values = self._values(name)
        return values if len(rows) == self._rows else values[rows]

    def _order(self, name: str, *, descending: bool) -> IntArray:
        column = self._column(name)
        if isinstance(column, LongColumn):
            raise ConfigError(f"the field {name!r} is a long text, which cannot be sorted by")
        values = self._values(name)
        if isinstance(column, TextColumn):
            values = _text_ranks(column, values)
        keys = -values if descending else values
        return np.argsort(keys, kind="stable").astype(np.int32)  # NaN, also negated, comes last


def _text_ranks(column: TextColumn, codes: IntArray) -> FloatArray:
    """Return the position of each row's text in alphabetical order; NaN without a text."""
    present = np.unique(codes[codes >= 0])
    texts = [text.lower() for text in column.names.texts(present.tolist())]
    positions = {text: at for at, text in enumerate(sorted(set(texts)))}
    ranks = np.full(int(codes.max(initial=-1)) + 2, np.nan)
    ranks[present] = [positions[text] for text in texts]
    return ranks[codes]


def _field(name: str, column: Column) -> TableField:
    if isinstance(column, LongColumn):
        return TableField(name, FieldKind.LONG)
    if isinstance(column, TextColumn):
        return TableField(name, FieldKind.TEXTS if column.separator else FieldKind.TEXT)
    return TableField(name, FieldKind.BOOLEAN if column.boolean else FieldKind.NUMBER, column.whole)


class _Cache:
    """The arrays that were used last, at most CACHED_BYTES of them."""

    def __init__(self) -> None:
        self._arrays: OrderedDict[str, npt.NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], A]) -> A:
        """Return an array, made when it is not there."""
        with self._lock:
            if name in self._arrays:
                self._arrays.move_to_end(name)
                return self._arrays[name]  # type: ignore[return-value]
        array = make()
        with self._lock:
            self._arrays[name] = array
            while (
                len(self._arrays) > 1
                and sum(a.nbytes for a in self._arrays.values()) > CACHED_BYTES
            ):
                self._arrays.popitem(last=False)
        return array
