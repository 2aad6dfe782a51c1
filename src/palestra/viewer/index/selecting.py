"""Decides the terms of a query for all rows of a table at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from palestra.analysis import (
    BetweenTerm,
    ComparedTerm,
    Condition,
    ContainsTerm,
    HasTerm,
    Query,
    WordTerm,
    decide_query,
    number_text,
)
from palestra.metrics import BoolArray, IntArray
from palestra.viewer.index.columns import Column, LongColumn, NumberColumn, TextColumn

Truth: TypeAlias = tuple[BoolArray, BoolArray]


class Selecting:
    """`columns`: by field. `words`: the fields that a word is looked for in. `values`: returns the
    numbers, codes or pointers of a field.
    """

    def __init__(
        self,
        rows: int,
        columns: Mapping[str, Column],
        words: Sequence[str],
        values: Callable[[str], npt.NDArray[Any]],
    ) -> None:
        self._rows, self._columns, self._words, self._values = rows, columns, words, values

    def mask(self, query: Query) -> BoolArray:
        """Return for each row whether it may match: texts of whole transcripts are not decided."""
        if query.tree is None:
            return np.ones(self._rows, np.bool_)
        yes, _ = decide_query(query.tree, self.leaf)
        return np.asarray(yes)

    def leaf(self, leaf: WordTerm | Condition) -> Truth:
        """Return where a term is true and where it is false. A text of whole transcripts may be
        either.
        """
        if isinstance(leaf, WordTerm):
            return self._word(leaf)
        column = self._columns[leaf.field]
        values = self._values(leaf.field)
        is_number = isinstance(column, NumberColumn)
        has_value = ~np.isnan(values) if is_number else values >= 0
        if isinstance(column, TextColumn) and column.separator:
            is_hit = self._of_texts(leaf, column, values)
            return is_hit, ~is_hit  # a row does not lack a field that may have no text
        if isinstance(leaf, HasTerm):
            return has_value, ~has_value
        if isinstance(column, NumberColumn):
            yes = _of_numbers(leaf, values) & has_value
        else:
            yes = self._of_texts(leaf, column, values) & has_value
        return yes, has_value & ~yes

    def _word(self, leaf: WordTerm) -> Truth:
        if leaf.whole_transcript:
            every = np.ones(self._rows, np.bool_)
            return every, every
        yes = np.zeros(self._rows, np.bool_)
        for name in self._words:
            column = self._columns[name]
            if isinstance(column, LongColumn):
                hits = column.heap.search(leaf.text)
                yes |= _among(self._values(name), hits)
            elif isinstance(column, TextColumn):
                yes |= _among(self._values(name), column.names.search(leaf.text))
        return yes, ~yes

    def _of_texts(
        self,
        leaf: Condition,
        column: TextColumn | LongColumn,
        codes: IntArray,
    ) -> BoolArray:
        names = column.names if isinstance(column, TextColumn) else column.heap
        separator = column.separator if isinstance(column, TextColumn) else ""
        if isinstance(leaf, ContainsTerm | HasTerm):
            part = separator if isinstance(leaf, HasTerm) else leaf.part
            return _among(codes, names.search(part))
        if isinstance(leaf, BetweenTerm) or leaf.operator not in {"=", "!="}:
            return np.zeros(len(codes), np.bool_)
        yes = np.zeros(len(codes), np.bool_)
        for text in leaf.equal_texts:
            yes |= _among(codes, names.search(text, exact=not separator, separator=separator))
        return yes if (leaf.operator == "=") != leaf.is_failed else ~yes


def _of_numbers(leaf: ComparedTerm | BetweenTerm | ContainsTerm, values: IntArray) -> BoolArray:
    if isinstance(leaf, ComparedTerm):
        return np.asarray(leaf.of_number(values))
    if isinstance(leaf, BetweenTerm):
        low = -np.inf if leaf.low is None else leaf.low
        high = np.inf if leaf.high is None else leaf.high
        return (values >= low) & (values <= high)
    distinct, inverse = np.unique(values, return_inverse=True)
    part = leaf.part.lower()
    contains = np.array([part in number_text(value) for value in distinct.tolist()], np.bool_)
    return contains[inverse]


def _among(codes: IntArray, hits: IntArray) -> BoolArray:
    """Return for each code whether it is in `hits`; a negative code is in none."""
    if not len(hits):
        return np.zeros(len(codes), np.bool_)
    is_hit = np.zeros(max(int(codes.max(initial=-1)), int(hits[-1])) + 2, np.bool_)
    is_hit[hits] = True
    return is_hit[codes]
