"""A file of rows in parts: stretches of whole lines that can be read apart."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from palestra.schema import MAX_ROW_BYTES

PART_BYTES: Final = 8 << 20
BLOCK_BYTES: Final = 1 << 19
"""What is held at a time: small enough for the cache of a core."""


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


def blocks_of(part: Part, *, most_bytes: int = MAX_ROW_BYTES) -> Iterator[list[bytes | TooLong]]:
    """Its lines without their line breaks, blank ones too, some at a time."""
    for text in texts_of(part, most_bytes=most_bytes):
        if isinstance(text, TooLong):
            yield [text]
            continue
        lines: list[bytes | TooLong] = [*text.split(b"\n")]
        if not lines[-1]:
            lines.pop()
        yield lines


def texts_of(part: Part, *, most_bytes: int = MAX_ROW_BYTES) -> Iterator[bytes | TooLong]:
    """Its lines, some at a time: all with their line breaks, unless it is the file's last."""
    with part.path.open("rb", buffering=0) as file:
        left = part.end - _to_first_line(file, part)
        begun: list[bytes] = []
        while left > 0 and (text := file.read(min(BLOCK_BYTES, left))):
            left -= len(text)
            end = text.rfind(b"\n") + 1
            if not end:
                begun.append(text)  # of a line that is longer than a block
                continue
            yield b"".join([*begun, text[:end]]) if begun else text[:end]
            begun = [text[end:]] if end < len(text) else []
        if begun:
            yield _rest(file, begun, most_bytes)


def _to_first_line(file: IO[bytes], part: Part) -> int:
    """Go to where the first line begins; the offset, that of the end when there is none."""
    if part.start == 0:
        return 0
    at = part.start - 1  # the byte before tells whether a line begins here
    file.seek(at)
    while at < part.end and (text := file.read(min(BLOCK_BYTES, part.end - at))):
        found = text.find(b"\n")
        if found >= 0:
            file.seek(at + found + 1)
            return at + found + 1
        at += len(text)
    return part.end


def _rest(file: IO[bytes], begun: list[bytes], most_bytes: int) -> bytes | TooLong:
    """A line that ends in another part."""
    pieces, size = begun, sum(map(len, begun))
    for piece in _to_line_break(file):
        size += len(piece)
        if size <= most_bytes + 1:
            pieces.append(piece)
    return b"".join(pieces) if size <= most_bytes + 1 else TooLong(size)


def _to_line_break(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(1 << 16):
        end = piece.find(b"\n") + 1
        yield piece[:end] if end else piece
        if end:
            return
