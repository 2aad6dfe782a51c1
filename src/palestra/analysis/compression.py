"""Opens a file of rows whether it is plain, gzip or zstd: its first bytes tell, not its name."""

import gzip
import io
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from palestra.errors import InputDataError

BUFFER_BYTES = 1 << 20
PACKED_BYTES = 1 << 12
"""Read at once of zstd data, which can unpack to 30,000 times as much."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LARGEST_WINDOW_BYTES = 1 << 31
"""What `zstd --long=31` asks for; memory is taken only when a file really needs it."""


def open_rows(path: Path) -> BinaryIO:
    """Open for reading bytes, unpacked as they are read. Raises InputDataError when it cannot be.

    Reading raises OSError or EOFError when compressed data is broken or cut short.
    """
    try:
        file = io.BufferedReader(path.open("rb", buffering=0), BUFFER_BYTES)
    except OSError as error:
        raise InputDataError(f"cannot read {path}: {error.strerror}") from error
    magic = file.peek(4)[:4]
    if magic.startswith(GZIP):
        file.close()
        return cast(BinaryIO, gzip.open(path))
    if magic.startswith(ZSTD):
        return io.BufferedReader(_Unzstd(file), BUFFER_BYTES)
    return file


def is_compressed(path: Path) -> bool:
    """Whether byte offsets into the rows are no places in the file."""
    with path.open("rb") as file:
        return file.read(4).startswith((GZIP, ZSTD))


class _Unzstd(io.RawIOBase):
    """Zstd frames, one after another. Unlike the package's own reader it notices a missing end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._new_frame()
        self._held = memoryview(b"")

    def _new_frame(self) -> None:
        self._frame = zstandard.ZstdDecompressor(
            max_window_size=LARGEST_WINDOW_BYTES
        ).decompressobj()
        self._began = False

    def readable(self) -> bool:
        return True

    def readinto(self, into: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        while not self._held:
            packed = self._frame.unused_data if self._frame.eof else self._file.read(PACKED_BYTES)
            if self._frame.eof:
                packed = packed or self._file.read(PACKED_BYTES)
                self._new_frame()
            if not packed:
                if self._began:
                    raise EOFError("the zstd data ends before its end mark")
                return 0
            self._began = True
            try:
                self._held = memoryview(self._frame.decompress(packed))
            except zstandard.ZstdError as error:
                raise OSError(f"broken zstd data ({error})") from error
        count = min(len(into), len(self._held))
        into[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
