"""Opens a file, plain or compressed (gzip, zstd). Its first bytes decide, not its name.

zstd is in Python's standard library from 3.14 on. Before, the extra `zstd` brings the same module.
"""

import errno
import gzip
import io
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

if TYPE_CHECKING:
    from backports.zstd import ZstdDecompressor

BUFFER_BYTES = 1 << 20
PACKED_BYTES = 1 << 12
"""The number of bytes of zstd data read at once. They can decompress to 30,000 times as many."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LARGEST_WINDOW_LOG: Final = 31
"""The window size of `zstd --long=31`: 2 GiB. Memory is allocated only when a file needs it."""


def open_packed(path: Path) -> BinaryIO:
    """Open a file for reading bytes and decompress while reading. Raises OSError: the file cannot
    be opened, or it is compressed with zstd and the extra `zstd` is not installed.

    Reading raises OSError, EOFError or `zlib.error`: the compressed data is broken or incomplete.
    """
    file = io.BufferedReader(path.open("rb", buffering=0), BUFFER_BYTES)
    magic = file.peek(4)[:4]
    if magic.startswith(GZIP):
        file.close()
        return cast(BinaryIO, gzip.open(path))
    if magic.startswith(ZSTD):
        return io.BufferedReader(_Unzstd(file, _zstd(path)), BUFFER_BYTES)
    return file


def is_compressed(path: Path) -> bool:
    """Whether the file is compressed, so that row offsets are not byte positions in it."""
    with path.open("rb") as file:
        return file.read(4).startswith((GZIP, ZSTD))


def _zstd(path: Path) -> Any:
    """Return the module `compression.zstd`, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd
    if find_spec("backports") is None or find_spec("backports.zstd") is None:
        raise OSError(
            errno.ENOSYS,
            "it is compressed with zstd, which Python reads from 3.14 on; "
            "before: pip install 'palestra[zstd]'",
            str(path),
        )
    from backports import zstd

    return zstd


class _Unzstd(io.RawIOBase):
    """Reads a sequence of zstd frames. Unlike the library's own reader, it raises EOFError when the
    end of a frame is missing, and reads frames with a large window.
    """

    def __init__(self, file: BinaryIO, zstd: Any) -> None:
        self._file = file
        self._zstd = zstd
        self._new_frame()
        self._held = memoryview(b"")

    def _new_frame(self) -> None:
        window = {self._zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW_LOG}
        self._frame: ZstdDecompressor = self._zstd.ZstdDecompressor(options=window)
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
                    raise EOFError("the zstd data is incomplete")
                return 0
            self._began = True
            try:
                self._held = memoryview(self._frame.decompress(packed))
            except self._zstd.ZstdError as error:
                raise OSError(f"the zstd data is damaged ({error})") from error
        count = min(len(into), len(self._held))
        into[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
