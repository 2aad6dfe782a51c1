"""A file of rows in parts: stretches of whole lines that can be read apart."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from palestra.schema import MAX_ROW_BYTES

PART_BYTES: Final = 8 << 20
_SKIP_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of `path` that begin at an offset from `start` to before `end`."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that is not read, for its size in bytes."""

    size: int


def parts_of(path: Path, *, part_bytes: int = PART_BYTES) -> list[Part]:
    """All of a file."""
    size = path.stat().st_size
    edges = [*range(0, size, part_bytes), size]
    return [Part(path, start, end) for start, end in itertools.pairwise(edges)]


def lines_of(part: Part, *, most_bytes: int = MAX_ROW_BYTES) -> list[bytes | TooLong]:
    """Its lines without their line breaks, blank ones too."""
    with part.path.open("rb", buffering=0) as raw:
        file = _Reader(raw, part)
        return [*file.lines(most_bytes)]


class _Reader:
    def __init__(self, file: IO[bytes], part: Part) -> None:
        self._file = file
        self._part = part

    def lines(self, most_bytes: int) -> Iterator[bytes | TooLong]:
        start = self._part.start
        # The byte before tells whether a line begins here.
        before = 1 if start else 0
        self._file.seek(start - before)
        text = self._read(self._part.end - start + before)
        if before:
            at = text.find(b"\n")
            if at < 0:
                return  # a line that began earlier, and reads on
            text = text[at + 1 :]
        if not text:
            return
        whole, _, last = text.rpartition(b"\n")
        if whole or text.startswith(b"\n"):
            for line in whole.split(b"\n"):
                yield line if len(line) <= most_bytes else TooLong(len(line))
        if last:
            yield self._rest(last, most_bytes)

    def _rest(self, begun: bytes, most_bytes: int) -> bytes | TooLong:
        """The line that begins in this part and ends in another."""
        pieces, size = [begun], len(begun)
        while piece := self._file.read(_SKIP_BYTES):
            end = piece.find(b"\n")
            piece = piece if end < 0 else piece[:end]
            size += len(piece)
            if size <= most_bytes:
                pieces.append(piece)
            if end >= 0:
                break
        return b"".join(pieces) if size <= most_bytes else TooLong(size)

    def _read(self, size: int) -> bytes:
        found = self._file.read(size)
        while len(found) < size and (more := self._file.read(size - len(found))):
            found += more
        return found
