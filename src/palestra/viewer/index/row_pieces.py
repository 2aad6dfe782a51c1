"""Reads items and fields of a row alone, by the places that they had when the row was split."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from palestra.system import FileState
from palestra.viewer.index.outline import SplitRow
from palestra.viewer.index.places import IndexedPlace, read_row

_GAP_BYTES: Final = 1 << 16
"""The largest gap between pieces that are read together."""
_FIELD_BYTES: Final = 512
"""The place of one field takes no more memory, its name aside."""
_ITEM_BYTES: Final = 16
"""The memory of the place of one item."""
_CHARACTER_BYTES: Final = 4


class _Span(NamedTuple):
    """Where a piece is in its row, in bytes."""

    start: int
    size: int


class RowPieces:
    """Where the items and fields of one row are. Its bytes are not kept.

    A piece is read alone while the file is as it was. Else, and where a row has no bytes of its own
    to point at (a packed file without a copy, an outcome, NaN or a lone surrogate), the whole row is
    read and split again.
    """

    def __init__(self, row_place: IndexedPlace, state: FileState | None, split: SplitRow) -> None:
        """Create it. `state`: of the file, before the row was read. `split`: the row, as read."""
        self.place = row_place
        self.model = split.model
        self._state = state
        self._items: array[int] | None = None
        """The start and the size of each item."""
        self._fields: dict[str, _Span] | None = None
        is_whole = row_place.is_outcome or (row_place.is_packed and row_place.frames is None)
        items = _spans(split.row, (raw for _, _, raw in split.raws()))
        fields = _spans(split.row, split.fields.values())
        if state is not None and not is_whole and items is not None and fields is not None:
            self._items = array("q", chain.from_iterable(items))
            self._fields = dict(zip(split.fields, fields, strict=True))

    @classmethod
    def split(cls, row_place: IndexedPlace) -> tuple["RowPieces", SplitRow]:
        """Return the pieces of a row, and the row itself. Raises RunChanged, InputDataError."""
        state = FileState.at(row_place.path)
        split = SplitRow(read_row(row_place))
        return cls(row_place, state, split), split

    @property
    def memory_bytes(self) -> int:
        """At most how much memory the places take."""
        items = len(self._items or ()) // 2 * _ITEM_BYTES
        names = self._fields or ()
        return items + sum(_FIELD_BYTES + _CHARACTER_BYTES * len(name) for name in names)

    def items(self, numbers: Sequence[int]) -> list[msgspec.Raw]:
        """Return items by their numbers in the row. Raises RunChanged."""
        spans = self._items
        if spans is not None:
            pieces = self._pieces([_Span(spans[2 * n], spans[2 * n + 1]) for n in numbers])
            if pieces is not None:
                return pieces
        split = SplitRow(read_row(self.place))
        return [split.raw(number) for number in numbers]

    def fields(self, *, without: frozenset[str], most_bytes: int) -> dict[str, msgspec.Raw]:
        """Return the fields of the row, without some names and without longer ones."""
        spans = {
            name: span
            for name, span in (self._fields or {}).items()
            if name not in without and span.size <= most_bytes
        }
        pieces = None if self._fields is None else self._pieces(list(spans.values()))
        if pieces is not None:
            return dict(zip(spans, pieces, strict=True))
        fields = SplitRow(read_row(self.place)).fields
        return {
            name: raw
            for name, raw in fields.items()
            if name not in without and len(memoryview(raw)) <= most_bytes
        }

    def _pieces(self, spans: Sequence[_Span]) -> list[msgspec.Raw] | None:
        """Return pieces of the row; None when the file is not as it was."""
        pieces: dict[_Span, msgspec.Raw] = {}
        for group in _groups(sorted(set(spans))):
            start = group[0].start
            end = max(span.start + span.size for span in group)
            data = memoryview(read_row(self.place, start=start, length=end - start))
            for span in group:
                at = span.start - start
                pieces[span] = msgspec.Raw(data[at : at + span.size])
        if FileState.at(self.place.path) != self._state:  # changed while it was read
            return None
        return [pieces[span] for span in spans]


def _groups(spans: Iterable[_Span]) -> Iterator[list[_Span]]:
    """Yield spans that are read together. `spans`: in order."""
    group: list[_Span] = []
    end = 0
    for span in spans:
        if group and span.start - end > _GAP_BYTES:
            yield group
            group = []
        group.append(span)
        end = max(end, span.start + span.size)
    if group:
        yield group


def _spans(row: bytes, raws: Iterable[msgspec.Raw]) -> list[_Span] | None:
    """Return where pieces are in the bytes of their row; None when one was made anew."""
    first = _address(row)
    spans = [_Span(_address(raw) - first, len(memoryview(raw))) for raw in raws]
    is_inside = all(0 <= span.start <= len(row) - span.size for span in spans)
    return spans if is_inside else None


def _address(data: Any) -> int:
    """Return where bytes are in memory: a piece that was split off is a view into its row."""
    address, _ = np.frombuffer(data, np.uint8).__array_interface__["data"]
    return int(address)
