"""Reads candidate rows from the files and yields those whose transcripts match a query.

Rows are searched as bytes, in reads of some megabytes; a row with a hit is then split, and its items
decide. A text of ASCII characters that a program wrote with needless escapes is not found.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

import numpy as np

from palestra.analysis import Query, WordTerm, decide_query, decode_value, split_row
from palestra.metrics import BoolArray, IntArray
from palestra.schema import CREATE_PARAMS
from palestra.viewer.index import IndexedPlace, IndexSnapshot, RunPart, read_row, row_of_outcome
from palestra.viewer.index.folding import ExactText, FoldedText
from palestra.viewer.index.outline import RawText, SplitRow

PROGRESS_BYTES: Final = 64 << 20
READ_BYTES: Final = 4 << 20
"""How much of a file is read and searched together."""
_GAP_BYTES: Final = 1 << 16
"""The largest gap between rows that are read together."""
EXCERPT_CHARACTERS: Final = 60
"""How much of a text is shown on each side of a hit."""
_LONGEST_FORM: Final = 12
"""The most bytes of one character in a row."""
_HEXADECIMAL: Final = re.compile(r"\\u[0-9a-f]{4}")
_PARAMS: Final = f'"{CREATE_PARAMS}"'.encode()


@dataclass(frozen=True, slots=True)
class TextHit:
    """A rollout that matches the whole query. `item`: the number of the first item that contains a
    text of the query, as in `SplitRow` of the row `part`, and `excerpt` the text around it; -1 and
    empty when the query matches because a text is absent. An error message has the item -1.
    """

    row: int
    item: int
    excerpt: str
    part: RunPart = RunPart.RESULT


def search_text(
    snapshot: IndexSnapshot, query: Query, candidates: IntArray
) -> Iterator[TextHit | int]:
    """Yield hits among the rollouts `candidates`, in file order.

    `candidates`: what `Table.select` returned for this query. After each 64 MB the number of bytes
    read so far is yielded, so that a caller can show progress and stop. Raises RunChanged: the files
    changed.
    """
    search = _Search(snapshot, query)
    reported = 0
    for batch in _reads(snapshot, candidates):
        yield from search.hits(batch)
        if search.bytes_read - reported >= PROGRESS_BYTES:
            reported = search.bytes_read
            yield reported
    yield search.bytes_read


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows of one file that are read together: their numbers, and where each begins and ends in the
    bytes of `place`.
    """

    part: RunPart
    place: IndexedPlace
    rows: IntArray
    starts: IntArray
    ends: IntArray


def _reads(snapshot: IndexSnapshot, candidates: IntArray) -> Iterator[_Read]:
    """Yield the rows to read, in the order of the files."""
    for part, rows, offsets, lengths in snapshot.by_place(candidates):
        ends = offsets + lengths
        begin = 0
        for end in [*_breaks(offsets, ends), len(rows)]:
            if end > begin:
                first = snapshot.place(int(rows[begin]), part)
                size = int(ends[end - 1] - offsets[begin])
                if first is not None:
                    at = slice(begin, end)
                    start = offsets[begin]
                    row_place = replace(first, length=size)
                    yield _Read(part, row_place, rows[at], offsets[at] - start, ends[at] - start)
            begin = end


def _breaks(offsets: IntArray, ends: IntArray) -> list[int]:
    """Return the positions of rows that are not read together with the row before."""
    gaps = offsets[1:] - ends[:-1]
    is_next_read = np.diff(offsets // READ_BYTES) != 0
    return (np.flatnonzero(is_next_read | (gaps < 0) | (gaps > _GAP_BYTES)) + 1).tolist()


class _Search:
    """Searches reads for the texts of one query."""

    def __init__(self, snapshot: IndexSnapshot, query: Query) -> None:
        self._snapshot, self._query = snapshot, query
        self._words = {leaf: _Pattern.of(leaf) for leaf in query.leaves() if _is_text(leaf)}
        selecting = snapshot.rollouts.selecting()
        self._decided: Mapping[Any, tuple[BoolArray, BoolArray]] = {
            leaf: selecting.leaf(leaf) for leaf in query.leaves() if not _is_text(leaf)
        }
        self.bytes_read = 0

    def hits(self, batch: _Read) -> Iterator[TextHit]:
        """Yield the rows of a read that match."""
        data = read_row(batch.place.stored)
        self.bytes_read += len(data)
        where: dict[int, dict[WordTerm, TextHit]] = {}
        ends = batch.ends.tolist()
        for word, pattern in self._words.items():
            positions = np.fromiter(pattern.positions(data, ends), np.int64)
            for at in _rows_of(batch, positions).tolist():
                line = data[int(batch.starts[at]) : int(batch.ends[at])]
                text = row_of_outcome(line) if batch.place.is_outcome else line
                hit = _hit(int(batch.rows[at]), batch.part, text, pattern)
                if hit is not None:
                    where.setdefault(at, {})[word] = hit
        self._look_into_prompts(batch, data, where)
        for at in np.flatnonzero(self._matches(batch.rows, where)).tolist():
            first = next(iter(where.get(at, {}).values()), None)
            yield first or TextHit(int(batch.rows[at]), -1, "", batch.part)

    def _look_into_prompts(
        self, batch: _Read, data: bytes, where: dict[int, dict[WordTerm, TextHit]]
    ) -> None:
        """Search the prompts of rows that do not repeat them."""
        if batch.part is RunPart.INPUT:
            return
        bounds = zip(batch.starts.tolist(), batch.ends.tolist(), strict=True)
        # most rows begin with it, so that little of them is read again
        without_prompt = [n for n, row in enumerate(bounds) if data.find(_PARAMS, *row) < 0]
        for at in without_prompt:
            row_place = self._snapshot.place(int(batch.rows[at]), RunPart.INPUT)
            missing = [word for word in self._words if word not in where.get(at, {})]
            if row_place is None or not missing:
                continue
            prompt = read_row(row_place)
            self.bytes_read += len(prompt)
            for word in missing:
                if self._words[word].is_in(memoryview(prompt)):
                    hit = _hit(int(batch.rows[at]), RunPart.INPUT, prompt, self._words[word])
                    if hit is not None:
                        where.setdefault(at, {})[word] = hit

    def _matches(
        self, rows: IntArray, where: Mapping[int, Mapping[WordTerm, TextHit]]
    ) -> BoolArray:
        def leaf(node: Any) -> tuple[BoolArray, BoolArray]:
            if _is_text(node):
                is_there = np.zeros(len(rows), np.bool_)
                is_there[[at for at, words in where.items() if node in words]] = True
                return is_there, ~is_there
            yes, no = self._decided[node]
            return yes[rows], no[rows]

        if self._query.tree is None:
            return np.ones(len(rows), np.bool_)
        return np.asarray(decide_query(self._query.tree, leaf)[0])


def _rows_of(batch: _Read, positions: IntArray) -> IntArray:
    """Return the positions of the rows of a read in which bytes were found."""
    at = np.unique(np.searchsorted(batch.starts, positions, side="right") - 1)
    return at[at >= 0]


def _is_text(leaf: Any) -> TypeGuard[WordTerm]:
    return isinstance(leaf, WordTerm) and leaf.whole_transcript


def _hit(row: int, part: RunPart, data: bytes, pattern: "_Pattern") -> TextHit | None:
    """Return the first item of a row that contains the text; None when no text of it does."""
    conversation = SplitRow(data)
    for number in range(len(conversation)):
        if not pattern.is_in(memoryview(conversation.raw(number))):
            continue
        for text in conversation.texts(number):
            excerpt = pattern.excerpt_of(text)
            if excerpt is not None:
                return TextHit(row, number, excerpt, part)
    message = (split_row(data) or {}).get("message")
    if part is RunPart.FAILURE and message is not None:
        excerpt = pattern.excerpt(str(decode_value(message)))
        return None if excerpt is None else TextHit(row, -1, excerpt, part)
    return None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A text to look for in rows. `text`: in lower case, unless `is_exact`."""

    text: str
    is_exact: bool
    search: ExactText | FoldedText

    @classmethod
    def of(cls, word: WordTerm) -> "_Pattern":
        if word.is_exact:
            return cls(word.text, word.is_exact, ExactText(word.text, _forms))
        has_case = not word.text.isascii() or word.text.lower() != word.text.upper()
        search = (FoldedText if has_case else ExactText)(word.text, _forms)
        return cls(word.text.lower(), word.is_exact, search)

    def positions(self, data: bytes | memoryview, ends: Sequence[int] = ()) -> Iterator[int]:
        """Yield where the text begins in the bytes of rows, at least once for each row with it.
        `ends`: where rows end.
        """
        if isinstance(self.search, ExactText):
            return self.search.starts(data, ends)
        return self.search.starts(data)

    def is_in(self, data: memoryview) -> bool:
        """Whether the text is in the bytes of a row."""
        return next(self.positions(data), None) is not None

    def excerpt_of(self, text: RawText) -> str | None:
        """Return the part of a text around the first hit; None without one."""
        margin = _LONGEST_FORM * (len(self.text) + EXCERPT_CHARACTERS)
        for at in self.positions(text.body):
            excerpt = self.excerpt(text.range(at - margin, 2 * margin).text)
            if excerpt is not None:
                return excerpt
        return None

    def excerpt(self, text: str) -> str | None:
        """Return the part of a text around the first hit; None without one."""
        at = (text if self.is_exact else text.lower()).find(self.text)
        if at < 0:
            return None
        end = at + len(self.text) + EXCERPT_CHARACTERS
        return text[max(at - EXCERPT_CHARACTERS, 0) : end]


def _forms(text: str) -> Sequence[bytes]:
    """Return a text as programs write it in JSON: with escapes for all but ASCII, in lower and in
    upper case, and without.
    """
    escaped = json.dumps(text)[1:-1]
    plain = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
    upper = _HEXADECIMAL.sub(lambda match: match[0].upper().replace("U", "u", 1), escaped)
    return escaped.encode(), upper.encode(), plain
