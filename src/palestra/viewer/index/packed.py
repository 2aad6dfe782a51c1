"""Reads rows of packed files without unpacking what precedes them.

A file of many frames is entered at its frames. A frame that is too large for that is copied, in
pieces of 1 MB.
"""

import io
import os
import zlib
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from palestra.errors import InputDataError
from palestra.metrics import IntArray
from palestra.schema import FrameReader, codec_of, open_packed
from palestra.viewer.index.storage import COPIES, SET_ASIDE_BYTES, StoredColumns

PIECE_BYTES: Final = 1 << 20
"""How much of the uncompressed file a copied piece has, and several small frames together."""
ENTERED_BYTES: Final = 4 << 20
"""A frame with more uncompressed bytes is copied; a smaller one is unpacked for each row."""
READ_AGAIN_BYTES: Final = 64 << 20
"""How far a packed file without a copy is unpacked to read a row."""
_LEVEL: Final = 1


class ReadFailed(Exception):
    """A packed file is damaged or incomplete."""


class RunChanged(InputDataError):
    """The file was replaced, cut or removed since it was indexed. `refresh` builds the index anew."""


class Piece(NamedTuple):
    """Some of the uncompressed file. `start`: its first byte there. `offset`, `size`: where it is, in
    the packed file or, with `is_copy`, among the copies.
    """

    start: int
    offset: int
    size: int
    is_copy: bool


@dataclass(frozen=True, slots=True)
class PackedFrames:
    """The pieces of one packed file, in order. `copies`: the copied ones; the others are whole frames
    of the file. `starts`, `offsets`, `sizes`: those of `Piece`; the size of a copy is negative.
    """

    path: Path
    copies: npt.NDArray[Any]
    starts: IntArray
    offsets: IntArray
    sizes: IntArray

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes of the uncompressed file. Raises InputDataError: they were not copied.
        Raises RunChanged: the file is not the one that was indexed.
        """
        if not count:
            return b""
        first, end = (int(at) for at in np.searchsorted(self.starts, [offset + 1, offset + count]))
        unpacked = b"".join(self._piece(number) for number in range(max(first - 1, 0), end))
        start = offset - int(self.starts[first - 1]) if first else 0
        data = unpacked[start : start + count]
        if len(data) < count:
            raise InputDataError(
                f"byte {offset} of the packed file was not set aside", hint="unpack the file"
            )
        return data

    def _piece(self, number: int) -> bytes:
        offset, size = int(self.offsets[number]), int(self.sizes[number])
        if size < 0:
            return zlib.decompress(bytes(self.copies[offset : offset - size]))
        try:
            with self.path.open("rb") as file:
                packed = os.pread(file.fileno(), size, offset)
            if len(packed) < size:
                raise EOFError("the file was cut")
            return FrameReader(io.BytesIO(packed), codec_of(self.path)).readall()
        except (OSError, EOFError) as error:
            raise RunChanged(
                f"{self.path} changed: it has no frame at byte {offset} any more: {error}",
                hint="load the page again: the file is indexed anew",
            ) from error


class PieceReader:
    """Reads a packed file and writes its pieces to the columns `NAME.starts`, `NAME.offsets` and
    `NAME.sizes`, and the copied ones to `NAME.copies`.
    """

    def __init__(
        self, path: Path, columns: StoredColumns, name: str, *, most_copied: int = SET_ASIDE_BYTES
    ) -> None:
        """Open the file. `most_copied`: the size of all copies, in bytes on disk."""
        self._ends: deque[tuple[int, int]] = deque()
        """The ends of frames that lie in what was read or, at most, just behind it."""
        codec = codec_of(path)
        frames = FrameReader(path.open("rb"), codec, lambda *ends: self._ends.append(ends))
        self._file = io.BufferedReader(frames, PIECE_BYTES)
        self._columns, self._name = columns, name
        self._waiting = bytearray()
        """What was read and is in no piece yet."""
        self._start = 0
        self._packed_start: int | None = 0
        """Where the first waiting byte's frame begins; None inside a frame that is copied."""
        self._whole: tuple[int, int] | None = None
        """The end of the last frame that is whole in what waits."""
        self._copied, self._most_copied = 0, most_copied
        self.copies = True
        """Whether the pieces are complete so far."""

    def read(self, count: int) -> bytes:
        """Return the next bytes. Raises ReadFailed; OSError or StorageFull: a piece cannot be
        written.
        """
        try:
            data = self._file.read(count)
        except (OSError, EOFError, zlib.error) as error:
            raise ReadFailed(str(error)) from error
        if self.copies:
            self._waiting += data
            self._take_pieces()
        return data

    def close(self) -> None:
        """Write what is left and close the file."""
        if self.copies:
            self._take_pieces()
            self._enter_whole_frames()
            while self._waiting:
                self._copy(len(self._waiting))
        self._waiting.clear()
        self._file.close()

    def _take_pieces(self) -> None:
        while self._ends and self._ends[0][1] <= self._start + len(self._waiting):
            self._end_frame(*self._ends.popleft())
        if self._packed_start is not None and len(self._waiting) > ENTERED_BYTES:
            self._enter_whole_frames()
            if len(self._waiting) > ENTERED_BYTES:
                self._packed_start = None
        while self._packed_start is None and len(self._waiting) >= PIECE_BYTES:
            self._copy(PIECE_BYTES)

    def _end_frame(self, packed: int, unpacked: int) -> None:
        if self._packed_start is None:
            while self._start < unpacked:
                self._copy(unpacked - self._start)
            self._packed_start = packed
            return
        if unpacked - self._start > ENTERED_BYTES:
            self._enter_whole_frames()
        self._whole = packed, unpacked
        if unpacked - self._start >= PIECE_BYTES:
            self._enter_whole_frames()

    def _enter_whole_frames(self) -> None:
        """Make a piece of the whole frames that wait."""
        if self._whole is None or self._packed_start is None:
            return
        packed, unpacked = self._whole
        size = packed - self._packed_start
        if unpacked > self._start:
            self._add(Piece(self._start, self._packed_start, size, is_copy=False))
            del self._waiting[: unpacked - self._start]
        self._start, self._packed_start, self._whole = unpacked, packed, None

    def _copy(self, limit: int) -> None:
        data = bytes(self._waiting[: min(limit, PIECE_BYTES)])
        copy = zlib.compress(data, _LEVEL)
        if self._copied + len(copy) > self._most_copied:
            self.copies = False
        if self.copies:
            self._columns.append(f"{self._name}{COPIES}", copy)
            self._add(Piece(self._start, self._copied, len(copy), is_copy=True))
            self._copied += len(copy)
        del self._waiting[: len(data)]
        self._start += len(data)

    def _add(self, piece: Piece) -> None:
        values = {
            "starts": piece.start,
            "offsets": piece.offset,
            "sizes": -piece.size if piece.is_copy else piece.size,
        }
        for name, value in values.items():
            self._columns.append(f"{self._name}.{name}", np.array([value], np.int64))


def read_packed(path: Path, offset: int, count: int) -> bytes:
    """Return bytes of a packed file that has no copy, by unpacking what precedes them.

    Raises InputDataError: that is too much, or the file is damaged. Raises OSError: it is gone.
    """
    if offset > READ_AGAIN_BYTES:
        raise InputDataError(
            f"{path} is packed, and too large to be set aside in the index",
            hint=f"unpack it beside itself, for example: zstd -d {path.name}, or gunzip {path.name}",
        )
    with open_packed(path) as file:
        try:
            _skip(file, offset)
            return file.read(count)
        except (EOFError, zlib.error) as error:
            raise InputDataError(
                f"{path} is damaged: {error}", hint="copy or write the file again"
            ) from error


def _skip(file: BinaryIO, count: int) -> None:
    while count and (data := file.read(min(count, PIECE_BYTES))):
        count -= len(data)
