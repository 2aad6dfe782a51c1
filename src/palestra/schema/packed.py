"""Opens a file, plain or compressed (gzip, zstd). Its first bytes decide, not its name.

zstd is in Python's standard library from 3.14 on. Before, the extra `zstd` brings the same module.
"""

import errno
import gzip
import io
import sys
import zlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

BUFFER_BYTES = 1 << 20
PACKED_BYTES = 1 << 12
"""The number of bytes of packed data read at once. They can decompress to 30,000 times as many."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_ONLY: Final = 16 + zlib.MAX_WBITS
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
        try:
            codec = _zstd_codec(path)
        except OSError:
            file.close()
            raise
        return io.BufferedReader(FrameReader(file, codec), BUFFER_BYTES)
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


class FrameCodec(NamedTuple):
    """How frames are unpacked. `padding`: bytes between two frames that belong to neither."""

    name: str
    new_frame: Callable[[], Any]
    errors: tuple[type[Exception], ...]
    padding: bytes = b""


class FrameReader(io.RawIOBase):
    """Reads a sequence of compressed frames (zstd) or members (gzip). Unlike the libraries' own
    readers, it says where each frame ends. It raises EOFError when the end of a frame is missing,
    and reads zstd frames with a large window.

    `on_frame_end`: called with two numbers of bytes from the beginning, packed and unpacked, up to
    the end of each frame.
    """

    def __init__(
        self,
        file: BinaryIO,
        codec: FrameCodec,
        on_frame_end: Callable[[int, int], None] | None = None,
    ) -> None:
        self._file, self._codec, self._on_frame_end = file, codec, on_frame_end
        self._frame: Any = None
        """The decompressor of the frame that has begun; None between frames."""
        self._unread = b""
        self._consumed = self._produced = 0
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        while not self._unpacked:
            packed = self._unread or self._file.read(PACKED_BYTES)
            self._unread = b""
            if not packed:
                if self._frame is not None:
                    raise EOFError(f"the {self._codec.name} data is incomplete")
                return 0
            self._unpack(packed)
        count = min(len(into), len(self._unpacked))
        into[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count

    def _unpack(self, packed: bytes) -> None:
        if self._frame is None:
            length = len(packed)
            packed = packed.lstrip(self._codec.padding)
            self._consumed += length - len(packed)
            if not packed:
                return
            self._frame = self._codec.new_frame()
        try:
            unpacked = self._frame.decompress(packed)
        except self._codec.errors as error:
            raise OSError(f"the {self._codec.name} data is damaged ({error})") from error
        self._unpacked = memoryview(unpacked)
        self._unread = self._frame.unused_data if self._frame.eof else b""
        self._consumed += len(packed) - len(self._unread)
        self._produced += len(unpacked)
        if self._frame.eof:
            self._frame = None
            if self._on_frame_end is not None:
                self._on_frame_end(self._consumed, self._produced)

    def close(self) -> None:
        self._file.close()
        super().close()


def codec_of(path: Path) -> FrameCodec:
    """Return how the frames of a compressed file are unpacked. Raises OSError: the file cannot be
    opened, or it is compressed with zstd and the extra `zstd` is not installed.
    """
    with path.open("rb") as file:
        if file.read(2) == GZIP:
            return FrameCodec("gzip", partial(zlib.decompressobj, _GZIP_ONLY), (zlib.error,), b"\0")
    return _zstd_codec(path)


def _zstd_codec(path: Path) -> FrameCodec:
    zstd = _zstd(path)
    window = {zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW_LOG}
    new_frame = partial(zstd.ZstdDecompressor, options=window)
    return FrameCodec("zstd", new_frame, (zstd.ZstdError,))
