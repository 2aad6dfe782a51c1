"""Reads candidate rows from the files and yields those whose transcripts match a query.

Rows are searched as bytes, in reads of some megabytes; a row with a hit is then split, and its items
decide. A text of ASCII characters that a program wrote with needless escapes is not found.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from palestra.analysis import Query, WordTerm, decide_query, decode_value, split_row
from palestra.metrics import BoolArray, IntArray
from palestra.schema import CREATE_PARAMS
from palestra.viewer.index import Part, RowPlace, Snapshot, read_row
from palestra.viewer.index.outline import Conversation, RawText

PROGRESS_BYTES: Final = 64 << 20
READ_BYTES: Final = 4 << 20
"""How much of a file is read and searched together."""
_GAP_BYTES: Final = 1 << 16
"""The largest gap between rows that are read together."""
EXCERPT_CHARACTERS: Final = 60
"""How much of a text is shown on each side of a hit."""
_LONGEST_FORM: Final = 12
"""The most bytes of one character in a row."""
_PARAMS: Final = f'"{CREATE_PARAMS}"'.encode()


@dataclass(frozen=True, slots=True)
class TextHit:
    """A rollout that matches the whole query. `item`: the number of the first item that contains a
    text of the query, as in `outline` of the row `part`, and `excerpt` the text around it; -1 and
    empty when the query matches because a text is absent. An error message has the item -1.
    """

    row: int
    item: int
    excerpt: str
    part: Part = Part.RESULT


def search_text(snapshot: Snapshot, query: Query, candidates: IntArray) -> Iterator[TextHit | int]:
    """Yield hits among the rollouts `candidates`, in file order. Texts are compared without case.

    `candidates`: what `Table.select` returned for this query. After each 64 MB the number of bytes
    read so far is yielded, so that a caller can show progress and stop. Raises RunChanged: the files
    changed.
    """
    search = _Search(snapshot, query)
    reported = 0
    for read in _reads(snapshot, candidates):
        yield from search.hits(read)
        if search.bytes_read - reported >= PROGRESS_BYTES:
            reported = search.bytes_read
            yield reported
    yield search.bytes_read


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows of one file that are read together: row numbers, and the place of each."""

    rows: list[int]
    row_places: list[RowPlace]
    part: Part

    @property
    def place(self) -> RowPlace:
        first, last = self.row_places[0], self.row_places[-1]
        return replace(first, length=last.offset + last.length - first.offset)


def _reads(snapshot: Snapshot, candidates: IntArray) -> Iterator[_Read]:
    """Yield the rows to read, in the order of the files."""
    for part, rows in snapshot.by_place(candidates):
        batch: list[int] = []
        batch_places: list[RowPlace] = []
        for row in rows.tolist():
            place = snapshot.place(row, part)
            if place is None:
                continue
            if batch and _is_apart(batch_places, place):
                yield _Read(batch, batch_places, part)
                batch, batch_places = [], []
            batch.append(row)
            batch_places.append(place)
        if batch:
            yield _Read(batch, batch_places, part)


def _is_apart(batch: Sequence[RowPlace], place: RowPlace) -> bool:
    last = batch[-1]
    return (
        last.path != place.path
        or place.offset - (last.offset + last.length) > _GAP_BYTES
        or place.offset + place.length - batch[0].offset > READ_BYTES
    )


class _Search:
    """Searches reads for the texts of one query."""

    def __init__(self, snapshot: Snapshot, query: Query) -> None:
        self._snapshot, self._query = snapshot, query
        self._words = {word: _Pattern.of(word) for word in query.texts}
        selecting = snapshot.rollouts.selecting()
        self._decided: Mapping[Any, tuple[BoolArray, BoolArray]] = {
            leaf: selecting.leaf(leaf) for leaf in query.leaves() if not _is_text(leaf)
        }
        self.bytes_read = 0

    def hits(self, read: _Read) -> Iterator[TextHit]:
        """Yield the rows of a read that match."""
        data = read_row(read.place)
        self.bytes_read += len(data)
        starts = np.array([place.offset - read.place.offset for place in read.row_places])
        where: list[dict[str, TextHit]] = [{} for _ in read.rows]
        for word, pattern in self._words.items():
            positions = np.fromiter(pattern.positions(memoryview(data)), np.int64)
            for at in np.unique(np.searchsorted(starts, positions, side="right") - 1).tolist():
                hit = self._in_row(read, at, data, pattern)
                if hit is not None:
                    where[at][word] = hit
        self._look_into_prompts(read, data, where)
        for at in np.flatnonzero(self._matches(read.rows, where)).tolist():
            first = next(iter(where[at].values()), None)
            yield first or TextHit(read.rows[at], -1, "", read.part)

    def _in_row(self, read: _Read, at: int, data: bytes, pattern: "_Pattern") -> TextHit | None:
        place = read.row_places[at]
        start = place.offset - read.place.offset
        text = data[start : start + place.length]
        return _hit(read.rows[at], read.part, text, pattern)

    def _look_into_prompts(
        self, read: _Read, data: bytes, where: Sequence[dict[str, TextHit]]
    ) -> None:
        """Search the prompts of rows that do not repeat them."""
        if read.part is Part.INPUT:
            return
        for at, place in enumerate(read.row_places):
            missing = [word for word in self._words if word not in where[at]]
            start = place.offset - read.place.offset
            if not missing or data.find(_PARAMS, start, start + place.length) >= 0:
                continue
            prompt_place = self._snapshot.place(read.rows[at], Part.INPUT)
            if prompt_place is None:
                continue
            prompt = read_row(prompt_place)
            self.bytes_read += len(prompt)
            for word in missing:
                if self._words[word].is_in(memoryview(prompt)):
                    hit = _hit(read.rows[at], Part.INPUT, prompt, self._words[word])
                    if hit is not None:
                        where[at][word] = hit

    def _matches(self, rows: list[int], where: Sequence[Mapping[str, TextHit]]) -> BoolArray:
        numbers = np.array(rows)

        def leaf(node: Any) -> tuple[BoolArray, BoolArray]:
            if _is_text(node):
                is_there = np.array([node.text in words for words in where], np.bool_)
                return is_there, ~is_there
            yes, no = self._decided[node]
            return yes[numbers], no[numbers]

        if self._query.tree is None:
            return np.ones(len(rows), np.bool_)
        return np.asarray(decide_query(self._query.tree, leaf)[0])


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, WordTerm) and leaf.whole_transcript


def _hit(row: int, part: Part, data: bytes, pattern: "_Pattern") -> TextHit | None:
    """Return the first item of a row that contains the text; None when no text of it does."""
    conversation = Conversation(data)
    for number in range(len(conversation)):
        if not pattern.is_in(memoryview(conversation.raw(number))):
            continue
        for text in conversation.texts(number):
            excerpt = pattern.excerpt_of(text)
            if excerpt is not None:
                return TextHit(row, number, excerpt, part)
    message = (split_row(data) or {}).get("message")
    if part is Part.FAILURE and message is not None:
        excerpt = pattern.excerpt(str(decode_value(message)))
        return None if excerpt is None else TextHit(row, -1, excerpt, part)
    return None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A text to look for. `lowered`: its bytes in JSON when it is ASCII; else `pattern` finds them."""

    text: str
    lowered: bytes
    pattern: "re.Pattern[bytes]"

    @classmethod
    def of(cls, text: str) -> "_Pattern":
        if text.isascii():
            lowered = json.dumps(text)[1:-1].lower().encode()
            return cls(text.lower(), lowered, re.compile(re.escape(lowered)))
        variants = b"".join(map(_variants, text))
        return cls(text.lower(), b"", re.compile(variants, re.IGNORECASE))

    def positions(self, data: memoryview) -> Iterator[int]:
        """Yield where the text begins in the bytes of rows. They are folded in parts, so that a long
        row is not copied.
        """
        overlap = _LONGEST_FORM * len(self.text)
        for start in range(0, max(len(data), 1), READ_BYTES):
            part = bytes(data[start : start + READ_BYTES + overlap])
            part = part.lower() if self.lowered else part
            if self.lowered and self.lowered not in part:
                continue
            for match in self.pattern.finditer(part):
                if match.start() < READ_BYTES:
                    yield start + match.start()

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
        at = text.lower().find(self.text)
        if at < 0:
            return None
        end = at + len(self.text) + EXCERPT_CHARACTERS
        return text[max(at - EXCERPT_CHARACTERS, 0) : end]


def _variants(character: str) -> bytes:
    """Return a pattern for the forms of a character in JSON, in either case."""
    cases = {character, character.lower(), character.upper()}
    forms = {form for case in cases for form in _forms(case)}
    return b"(?:" + b"|".join(sorted(map(re.escape, forms))) + b")"


def _forms(text: str) -> Iterator[bytes]:
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
