"""The files that a merge reads, by number; none of them is ever changed."""

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from palestra.errors import InputDataError, KnownCause
from palestra.system import lock

BUFFER_BYTES = 1 << 20
MOST_OPEN = 64
"""File handles kept open at once, however many shards there are."""


class Place(NamedTuple):
    """Where a row is: the number of its file, and its bytes there, line break included."""

    source: int
    offset: int
    length: int


class _FileState(NamedTuple):
    """What changes about a file when somebody writes to it or replaces it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Sources:
    """Numbers files as they are scanned, and reads places in them. Use as a context manager."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self._states: list[_FileState] = []
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def scan(self, path: Path) -> tuple[int, Iterator[tuple[int, bytes]]]:
        """The number of a file, and its lines with their offsets, blank ones left out.

        Raises InputDataError when the file cannot be read, and when a collection writes to it.
        """
        try:
            file = path.open("rb", buffering=BUFFER_BYTES)
        except OSError as error:
            raise _unreadable(path, error) from error
        source = len(self.paths)
        self.paths.append(path)
        self._states.append(_FileState.of(os.fstat(file.fileno())))
        return source, _lines(path, file)

    def read(self, place: Place) -> bytes:
        """The bytes at a place. Raises InputDataError when they are no longer there."""
        path = self.paths[place.source]
        try:
            found = os.pread(self._handle(place.source).fileno(), place.length, place.offset)
        except OSError as error:
            raise _unreadable(path, error) from error
        if len(found) != place.length:
            raise _changed(path)
        return found

    def line_number(self, source: int, offset: int) -> int:
        """Which line of its file a row is, from 1."""
        file = self._handle(source)
        file.seek(0)
        left, breaks = offset, 0
        while left:
            block = file.read(min(left, BUFFER_BYTES))
            if not block:
                break
            left -= len(block)
            breaks += block.count(b"\n")
        return breaks + 1

    def check_unchanged(self) -> None:
        """Raise InputDataError unless every file is as it was when it was scanned."""
        for path, state in zip(self.paths, self._states, strict=True):
            try:
                now = _FileState.of(path.stat())
            except OSError as error:
                raise _unreadable(path, error) from error
            if now != state:
                raise _changed(path)

    def _handle(self, source: int) -> BinaryIO:
        file = self._open.get(source)
        if file is not None:
            self._open.move_to_end(source)
            return file
        if len(self._open) >= MOST_OPEN:
            self._open.popitem(last=False)[1].close()
        path = self.paths[source]
        try:
            file = self._open[source] = path.open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(path, error) from error
        return file


def check_not_being_written(path: Path) -> None:
    """Raise InputDataError while a collection holds `path`; the file may be read-only for us."""
    try:
        with path.open("rb") as file:
            lock(file, shared=True)
    except BlockingIOError:
        raise InputDataError(
            f"{path} is being written by a collection",
            hint="merge when that one has ended; `--resume` continues one that was killed",
            cause=KnownCause.OUTPUT_IN_USE,
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with file:
        try:
            for text in file:
                if not text.isspace():
                    yield offset, text
                offset += len(text)
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputDataError:
    return InputDataError(f"cannot read {path}: {error.strerror}")


def _changed(path: Path) -> InputDataError:
    return InputDataError(
        f"{path} changed while it was being merged; nothing was written",
        hint="run the merge again when nothing writes to its shards",
    )
