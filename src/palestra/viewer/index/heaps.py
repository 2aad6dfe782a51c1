"""Texts in a heap: one after the other, each followed by a zero byte, and searched as bytes."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palestra.metrics import IntArray
from palestra.viewer.index.folding import FoldedText
from palestra.viewer.index.layout import NO_TEXT
from palestra.viewer.index.storage import StoredColumns

SEPARATOR: Final = b"\0"
_REMEMBERED: Final = 4_096


def heap_bytes(text: str) -> bytes:
    """Return a text as it is in a heap. Zero characters become spaces, and lone surrogates `?`."""
    return text.encode("utf-8", "replace").replace(SEPARATOR, b" ")


class HeapWriter:
    """Collects texts until `flush` appends them to the columns `NAME.heap` and `NAME.ends`."""

    def __init__(self, columns: StoredColumns, name: str) -> None:
        self._columns, self._name = columns, name
        self._texts: list[str] = []
        sizes = columns.states
        self._end = sizes[f"{name}.heap"].size if f"{name}.heap" in sizes else 0
        self._count = sizes[f"{name}.ends"].size // 8 if f"{name}.ends" in sizes else 0

    def add(self, text: str) -> int:
        """Append a text; return its number."""
        self._texts.append(text)
        self._count += 1
        return self._count - 1

    def extend(self, texts: Sequence[str]) -> None:
        """Append texts."""
        self._texts.extend(texts)
        self._count += len(texts)

    def flush(self) -> None:
        """Write the collected texts. Raises OSError or StorageFull."""
        if not self._texts:
            return
        data = self._encoded()
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0) + 1
        self._columns.append(f"{self._name}.heap", data)
        self._columns.append(f"{self._name}.ends", (self._end + ends).astype(np.int64))
        self._end += len(data)
        self._texts = []

    def _encoded(self) -> bytes:
        """Return the collected texts as heap bytes; together, since that is faster."""
        joined = "\0".join([*self._texts, ""])
        if joined.count("\0") == len(self._texts):
            return joined.encode("utf-8", "replace")
        return SEPARATOR.join([*map(heap_bytes, self._texts), b""])


class TextCodes:
    """Numbers short texts by their position in the heap `texts`. A text may get several numbers:
    only the last few thousand are remembered. `longest`: in characters; longer ones have no number.
    """

    def __init__(self, heap: HeapWriter, *, longest: int) -> None:
        self._heap, self._longest = heap, longest
        self._codes: dict[Any, int] = {}

    def code(self, text: str) -> int:
        """Return the number of one text."""
        code = self._codes.get(text)
        if code is None:
            if len(self._codes) >= _REMEMBERED:
                self._codes.clear()
            code = self._codes[text] = self._heap.add(text)
        return code

    def codes(self, values: Sequence[Any]) -> npt.NDArray[np.int32]:
        """Return the number of each value; NO_TEXT for one that is not a short text."""
        try:
            distinct = dict.fromkeys(values)
        except TypeError:  # lists and objects
            values = [value if type(value) is str else None for value in values]
            distinct = dict.fromkeys(values)
        if len(distinct) > _REMEMBERED:
            return np.fromiter(map(self._code_or_none, values), np.int32, len(values))
        codes = {value: self._code_or_none(value) for value in distinct}
        return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))

    def _code_or_none(self, value: Any) -> int:
        if type(value) is str and len(value) <= self._longest:
            return self.code(value)
        return NO_TEXT


class Heap:
    """The texts of a snapshot, by number."""

    def __init__(self, data: npt.NDArray[np.uint8], ends: IntArray) -> None:
        self._data = data
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def text(self, number: int) -> str:
        """Return one text."""
        start = int(self._ends[number - 1]) if number else 0
        data = self._data[start : int(self._ends[number]) - 1].tobytes()
        return data.decode("utf-8", "replace")

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return list(map(self.text, numbers))

    def search(self, text: str, *, exact: bool = False, separator: str = "") -> IntArray:
        """Return the numbers of the texts that contain `text`, without case, in order.

        `exact`: they must equal it. `separator`: a character that stands around each part of a text;
        one part must equal `text`.
        """
        around = SEPARATOR if exact else separator.encode()
        folded = FoldedText(
            heap_bytes(text).decode(),
            lambda part: [part.encode("utf-8", "replace")],
            around=around,
            until=b"" if exact else SEPARATOR,
        )
        hits = [np.empty(0, np.int64)]
        # A whole text is searched with the separator before it: the first has none.
        if exact and len(self) and self.text(0).lower() == text.lower():
            hits.append(np.zeros(1, np.int64))
        positions = np.fromiter(folded.starts(self._data.data), np.int64)
        inside = positions + (1 if exact else 0)
        hits.append(np.searchsorted(self._ends, inside, side="right"))
        return np.unique(np.concatenate(hits))
