"""Reads whole lines of a file from a byte offset on, in blocks. What follows the last line break
waits.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from palestra.schema import MAX_ROW_BYTES

BLOCK_BYTES: Final = 1 << 20
"""How much is read and decoded together: some rows of 50 KB, since a block costs as much as a row."""


class Readable(Protocol):
    """An open file, as far as it is read here."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Successive whole lines, without their line breaks. `offsets`: where each begins.

    `first_line`: the number of the first line, from 1. `end`: the offset after the last line break.
    `too_long`: the bytes of the only line of this block when it is longer than a row may be; it is
    not in `texts`.
    """

    texts: list[bytes]
    offsets: list[int]
    first_line: int
    end: int
    too_long: int = 0

    @property
    def lines(self) -> int:
        """The number of lines, with those that are too long."""
        return len(self.texts) + (self.too_long > 0)


def line_blocks(file: Readable, *, offset: int, first_line: int) -> Iterator[LineBlock]:
    """Yield the lines of an open file, which stands at `offset`, the start of line `first_line`.

    Raises OSError, EOFError or zlib.error as the file does.
    """
    parts: list[bytes] = []
    size = 0
    while data := file.read(BLOCK_BYTES):
        texts = data.split(b"\n")
        tail = texts.pop()
        if not texts:
            size += len(tail)
            parts = [*parts, tail] if size <= MAX_ROW_BYTES else []
            continue
        length = size + len(texts[0])
        if length > MAX_ROW_BYTES:
            end = offset + length + 1
            yield LineBlock([], [], first_line, end, too_long=length)
            offset, first_line = end, first_line + 1
            del texts[0]
        elif parts:
            texts[0] = b"".join([*parts, texts[0]])
        if texts:
            block = _block(texts, offset, first_line)
            yield block
            offset, first_line = block.end, first_line + len(texts)
        parts, size = [tail] if tail else [], len(tail)


def _block(texts: list[bytes], offset: int, first_line: int) -> LineBlock:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = (offset + np.cumsum(lengths + 1)).tolist()
    offsets = [offset, *ends[:-1]]
    if offset == 0 and texts[0].startswith(codecs.BOM_UTF8):
        texts[0] = texts[0].removeprefix(codecs.BOM_UTF8)
        offsets[0] = len(codecs.BOM_UTF8)
    return LineBlock(texts, offsets, first_line, ends[-1])
