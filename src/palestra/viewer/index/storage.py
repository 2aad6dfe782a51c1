"""Columns and texts that only grow, in files that are mapped for reading.

A *generation* is a folder of column files. A commit file names the generation and how many bytes of
each column count, with their checksums. What a killed writer has appended beyond is cut when the next
writer begins. An index in memory has the same columns, in files without a name.
"""

import contextlib
import mmap
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.system import move

COMMIT: Final = "commit.json"
MEMORY_BYTES: Final = 256 << 20
"""The largest index that is kept in memory."""
SMALL_BYTES: Final = 1 << 16
"""A column of at most this size is read instead of mapped. A mapping keeps a file open as long as it
lasts, and there are dozens of columns for every run that was visited."""
_CHECKED_AT_ONCE: Final = 1 << 22


COPIES: Final = ".copies"
"""The ending of the columns with copies of packed files."""
SET_ASIDE_BYTES: Final = 20 << 30
"""The largest size of the copies of one run, in bytes on disk."""


class StorageFull(Exception):
    """The index has no room left."""


class ColumnState(msgspec.Struct):
    """How much of a column counts: its bytes, and their CRC-32."""

    size: int = 0
    crc: int = 0


class StoredColumns:
    """The column files of one generation. `folder`: None keeps them in memory, at most
    `memory_bytes`.
    """

    def __init__(
        self,
        folder: Path | None,
        states: dict[str, ColumnState] | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._files: dict[str, int] = {}
        self.states = dict(states or {})
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def size(self) -> int:
        """The bytes of all columns."""
        return sum(state.size for state in self.states.values())

    @property
    def room_for_copies(self) -> int:
        """How many more bytes of packed files may be copied; in memory, half of it is for columns."""
        most_bytes = SET_ASIDE_BYTES if self._folder is not None else self._memory_bytes // 2
        copied = sum(s.size for name, s in self.states.items() if name.endswith(COPIES))
        return max(0, most_bytes - copied)

    def append(self, name: str, data: bytes | npt.NDArray[Any]) -> None:
        """Append to a column. Raises OSError, or StorageFull: the memory for indexes is used up."""
        raw = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
        state = self.states.setdefault(name, ColumnState())
        if self._folder is None and self.size + len(raw) > self._memory_bytes:
            raise StorageFull
        with self._writing(name) as descriptor:
            view = memoryview(raw)
            while view:
                view = view[os.write(descriptor, view) :]
        state.size += len(raw)
        state.crc = zlib.crc32(raw, state.crc)

    def view(self, name: str, dtype: npt.DTypeLike, size: int | None = None) -> npt.NDArray[Any]:
        """Map a column, or read it where it is small. `size`: how many bytes of it; by default all
        that was appended.
        """
        known_size = self.states[name].size if name in self.states else 0
        size = known_size if size is None else size
        if not size:
            return np.empty(0, dtype)
        with self._reading(name) as descriptor:
            if size <= SMALL_BYTES:
                return np.frombuffer(os.pread(descriptor, size, 0), dtype)
            mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        return np.frombuffer(mapped, dtype)

    def cut(self) -> None:
        """Remove what was appended after the states were committed. Raises OSError."""
        for path in self._folder.iterdir() if self._folder is not None else ():
            state = self.states.get(path.name)
            if state is None:
                path.unlink()
            elif path.stat().st_size > state.size:
                os.truncate(path, state.size)

    def problem(self) -> str:
        """Return why the columns cannot be trusted; empty when every checksum is right."""
        for name, state in self.states.items():
            try:
                with self._reading(name) as descriptor:
                    crc = _crc(descriptor, state.size)
            except OSError:
                return f"the column {name} is missing"
            if crc != state.crc:
                return f"the column {name} is damaged"
        return ""

    def close(self) -> None:
        """Close the files in memory."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _writing(self, name: str) -> "contextlib.AbstractContextManager[int]":
        if self._folder is None:
            return contextlib.nullcontext(self._in_memory(name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return _closing(os.open(self._folder / name, flags, 0o600))

    def _reading(self, name: str) -> "contextlib.AbstractContextManager[int]":
        if self._folder is None:
            return contextlib.nullcontext(self._in_memory(name))
        return _closing(os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC))

    def _in_memory(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = _unnamed_file()
        return self._files[name]


@contextlib.contextmanager
def _closing(descriptor: int) -> Any:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("palestra-index")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _crc(descriptor: int, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes. Raises OSError: the file is shorter."""
    crc, offset = 0, 0
    while offset < size:
        data = os.pread(descriptor, min(_CHECKED_AT_ONCE, size - offset), offset)
        if not data:
            raise OSError
        crc, offset = zlib.crc32(data, crc), offset + len(data)
    return crc


def read_commit(folder: Path) -> bytes | None:
    """Return the bytes of the commit file; None when there is none."""
    with contextlib.suppress(OSError):
        return (folder / COMMIT).read_bytes()
    return None


def write_commit(folder: Path, data: bytes) -> None:
    """Put a commit in place, whole. Raises OSError.

    Nothing is synced to the disk: a crash of the machine is found by the checksums, and the index is
    built anew.
    """
    new = folder / f"{COMMIT}.new"
    new.write_bytes(data)
    new.chmod(0o600)
    move(new, folder / COMMIT)


def remove_others(folder: Path, generation: str) -> None:
    """Remove the generations that are no longer current. Who has mapped them reads on."""
    for path in folder.iterdir():
        if path.is_dir() and path.name != generation:
            shutil.rmtree(path, ignore_errors=True)
