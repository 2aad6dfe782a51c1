"""A table of rollouts or tasks: its fields, and selecting, sorting, counting and paging its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from palestra.analysis import Query
from palestra.metrics import FloatArray, IntArray


class FieldKind(StrEnum):
    """How a field compares."""

    NUMBER = "number"
    """float64; NaN where a row lacks the field."""
    BOOLEAN = "boolean"
    """As NUMBER, with 0 and 1 only."""
    TEXT = "text"
    """A text of at most 64 characters; equal texts may have several codes."""
    TEXTS = "texts"
    """Several texts in each row, such as the tools that were called."""
    LONG = "long"
    """A text in the heap: answer, prompt, message. It can be searched and shown, not sorted."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table. `whole`: every value is an integer."""

    name: str
    kind: FieldKind
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Facet:
    """How many of the selected rows have a value. `value` is None for rows without the field."""

    value: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of a numeric field. Bin i reaches from `edges[i]` to `edges[i + 1]`."""

    edges: Sequence[float]
    counts: Sequence[int]
    absent: int
    """The number of selected rows without the field."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a table, and the number of all selected rows."""

    total: int
    start: int
    numbers: Sequence[int]
    rows: Sequence[Mapping[str, Any]]
    """Per row, the value of each requested field; None where the row lacks it."""


class Table:
    """The rows of one snapshot."""

    fields: Mapping[str, Field]

    def __len__(self) -> int:
        raise NotImplementedError

    def numbers(self, name: str) -> FloatArray:
        """Return a numeric field, one value per row; NaN where a row lacks it. Raises ConfigError:
        the table has no such numeric field.
        """
        raise NotImplementedError

    def select(self, query: Query | str) -> IntArray:
        """Return the numbers of the rows that match, in table order; `sort:` of the query decides
        the order when it is there. A query with `text:` terms selects every row that may match;
        `search_text` decides which do.

        Raises ConfigError: the query cannot be read, or names a field that the table lacks.
        """
        raise NotImplementedError

    def sort(self, rows: IntArray, by: str) -> IntArray:
        """Return `rows` in the order of a field, descending when `by` starts with `-`. Rows without
        the field come last. Rows with equal values stay in table order.
        """
        raise NotImplementedError

    def page(
        self, rows: IntArray, *, start: int = 0, count: int = 100, fields: Sequence[str] = ()
    ) -> Page:
        """Return the values of `count` rows from position `start` of `rows`."""
        raise NotImplementedError

    def facet(self, rows: IntArray, name: str, *, most: int = 50) -> Sequence[Facet]:
        """Count the values of a text field, the most frequent first."""
        raise NotImplementedError

    def histogram(self, rows: IntArray, name: str, *, bins: int = 40) -> Histogram:
        """Count the values of a numeric field in bins of equal width. Whole numbers in a small range
        get a bin each.
        """
        raise NotImplementedError
