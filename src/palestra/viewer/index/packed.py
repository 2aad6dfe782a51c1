"""Copies of packed files in frames of 1 MB, so that a row is read without unpacking what precedes it."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from palestra.errors import InputDataError
from palestra.metrics import IntArray
from palestra.schema import open_packed
from palestra.viewer.index.storage import StoredColumns

FRAME_BYTES: Final = 1 << 20
"""How much of the uncompressed file is in one frame."""
SET_ASIDE_BYTES: Final = 20 << 30
"""The largest size of the copies of one run, in bytes on disk."""
READ_AGAIN_BYTES: Final = 64 << 20
"""How far a packed file without a copy is unpacked to read a row."""
_LEVEL: Final = 1


class ReadFailed(Exception):
    """A packed file is damaged or incomplete."""


@dataclass(frozen=True, slots=True)
class PackedFrames:
    """The frames of one packed file. `ends`: where each ends in `data`."""

    data: npt.NDArray[Any]
    ends: IntArray

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes of the uncompressed file. Raises InputDataError: they were not copied."""
        if not count:
            return b""
        first, last = offset // FRAME_BYTES, (offset + count - 1) // FRAME_BYTES
        if last >= len(self.ends):
            raise InputDataError(
                f"byte {offset} of the packed file was not set aside", hint="unpack the file"
            )
        unpacked = b"".join(map(self._frame, range(first, last + 1)))
        start = offset - first * FRAME_BYTES
        return unpacked[start : start + count]

    def _frame(self, number: int) -> bytes:
        start = int(self.ends[number - 1]) if number else 0
        packed = bytes(self.data[start : int(self.ends[number])])
        return zlib.decompressobj().decompress(packed, FRAME_BYTES)


class CopyingReader:
    """Reads a packed file and copies it to the columns `NAME.frames` and `NAME.ends`."""

    def __init__(self, path: Path, columns: StoredColumns, name: str) -> None:
        self._file = open_packed(path)
        self._columns, self._name = columns, name
        self._waiting = b""
        self._end = 0
        self.copies = True
        """Whether the copy is complete so far."""

    def read(self, count: int) -> bytes:
        """Return the next bytes. Raises ReadFailed; OSError or StorageFull: the copy cannot be
        written.
        """
        try:
            data = self._file.read(count)
        except (OSError, EOFError, zlib.error) as error:
            raise ReadFailed(str(error)) from error
        if self.copies:
            self._waiting += data
            while len(self._waiting) >= FRAME_BYTES:
                self._copy(self._waiting[:FRAME_BYTES])
                self._waiting = self._waiting[FRAME_BYTES:]
        return data

    def close(self) -> None:
        """Copy what is left and close the file."""
        if self._waiting and self.copies:
            self._copy(self._waiting)
        self._waiting = b""
        self._file.close()

    def _copy(self, data: bytes) -> None:
        frame = zlib.compress(data, _LEVEL)
        if self._end + len(frame) > SET_ASIDE_BYTES:
            self.copies = False
            return
        self._end += len(frame)
        self._columns.append(f"{self._name}.frames", frame)
        self._columns.append(f"{self._name}.ends", np.array([self._end], np.int64))


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
    while count and (data := file.read(min(count, FRAME_BYTES))):
        count -= len(data)
