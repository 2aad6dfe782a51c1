"""The columns of a table: numbers, short texts by code, and long texts in a heap."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from palestra.metrics import FloatArray, IntArray
from palestra.viewer.index.heaps import Heap

Rows = IntArray | None
"""Row numbers; None for all rows."""
Pointers = npt.NDArray[np.signedinteger[Any]]
"""Per row of a table, a row of a column, or -1."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A stored column, seen through pointers."""

    column: npt.NDArray[Any]
    pointers: Pointers | None
    """None when the column has the same rows."""
    absent: float

    def values(self, rows: Rows = None) -> npt.NDArray[Any]:
        """Return one value per row; `absent` for a row without one."""
        if self.pointers is None:
            return self.column if rows is None else self.column[rows]
        pointers = self.pointers if rows is None else self.pointers[rows]
        if not len(self.column):
            return np.full(len(pointers), self.absent)
        values = self.column[pointers]
        is_absent = pointers < 0
        return np.where(is_absent, self.absent, values) if is_absent.any() else values


class Names(Protocol):
    """Texts by code."""

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """Return the texts of some codes."""

    def search(self, text: str, *, exact: bool = False, separator: str = "") -> IntArray:
        """Return the codes of the texts that contain `text`, as `Heap.search`."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A few texts, by position."""

    names: Sequence[str]

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return [self.names[number] for number in numbers]

    def search(self, text: str, *, exact: bool = False, separator: str = "") -> IntArray:
        part = f"{separator}{text}{separator}".lower()
        lowered = [name.lower() for name in self.names]
        hits = (n for n, name in enumerate(lowered) if (name == part if exact else part in name))
        return np.fromiter(hits, np.int64)


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A numeric field. `whole`: every value is an integer; `boolean`: every value is 0 or 1."""

    source: Gathered
    whole: bool = False
    boolean: bool = False

    def values(self, rows: Rows = None) -> FloatArray:
        """Return one number per row; NaN for a row without one."""
        return self.source.values(rows).astype(np.float64, copy=False)

    def shown(self, rows: IntArray) -> list[Any]:
        """Return Python values; None for a row without one."""
        kind = bool if self.boolean else int if self.whole else float
        return [None if isnan(value) else kind(value) for value in self.values(rows).tolist()]


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A field of short texts. `separator`: stands around each text of a row with several."""

    source: Gathered
    names: Names
    separator: str = ""

    def codes(self, rows: Rows = None) -> npt.NDArray[np.int32]:
        """Return one code per row; -1 for a row without a text."""
        return self.source.values(rows).astype(np.int32, copy=False)

    def shown(self, rows: IntArray) -> list[Any]:
        """Return Python values; None for a row without one, a list for a field of several texts."""
        codes = self.codes(rows)
        present = np.unique(codes[codes >= 0]).tolist()
        texts: dict[int, Any] = dict(zip(present, self.names.texts(present), strict=True))
        if self.separator:
            texts = {
                code: [t for t in text.split(self.separator) if t] for code, text in texts.items()
            }
        return [texts.get(code) for code in codes.tolist()]


@dataclass(frozen=True, slots=True)
class LongColumn:
    """Texts of a heap. `pointers`: per row the number of its text, or -1."""

    heap: Heap
    pointers: Pointers

    def shown(self, rows: IntArray) -> list[Any]:
        return [self.heap.text(n) if n >= 0 else None for n in self.pointers[rows].tolist()]


Column = NumberColumn | TextColumn | LongColumn
