"""Whether two queries give the same result, by running them: on the rows at hand and on variants.

Called in a worker process that can be killed: `compare` is given and gives plain values.

- The same columns' values in the same order count; names of columns do not.
- The order of rows counts where the reference has an ORDER BY of its own.
- Where the reference itself gives another result when tables are read backwards, or equals for
  its ORDER BY come the other way (under a LIMIT, say), that database decides nothing; where only
  its order is another, any order is right.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from palestra.resources_servers.text_to_sql.database import Database, Refused, Row
from palestra.resources_servers.text_to_sql.queries import (
    is_ordered,
    literals,
    with_equals_told_apart,
)
from palestra.resources_servers.text_to_sql.variants import Rows, fill, tables_of, variants

SAME, DIFFERENT, FAILED, UNDECIDED = "same", "different", "failed", "undecided"
VARIANTS: Final = 30

Plain = Sequence[tuple[str, str]]


def compare(context: str, reference: str, candidate: str) -> tuple[str, str]:
    """A verdict and what it rests on.

    `same`, `different`; `failed`: the candidate is no query that runs here; `undecided`: the
    reference is none, or its result is empty or arbitrary wherever it was run.
    """
    try:
        contents = _contents(context, reference, candidate)
        expected = [_expected(context, reference, content) for content in contents]
    except Refused as error:
        return UNDECIDED, f"the reference cannot be run: {error}"
    return _verdict(context, candidate, contents, expected)


def _verdict(
    context: str,
    candidate: str,
    contents: Sequence[Rows | None],
    expected: Sequence["_Expected | None"],
) -> tuple[str, str]:
    decided = 0
    for number, (content, wanted) in enumerate(zip(contents, expected, strict=True)):
        if wanted is None:
            continue
        try:
            found = _run(context, candidate, content)
        except Refused as error:
            return FAILED, str(error)
        where = f"variant {number} of the database" if number else "the given database"
        if not wanted.has_the_rows_of(found):
            return DIFFERENT, f"another result on {where}"
        if not wanted.has_the_order_of(found):
            return DIFFERENT, f"another order on {where}"
        decided += not wanted.is_empty
    if not decided:
        return UNDECIDED, "the reference's result is empty or arbitrary on every database"
    return SAME, f"the same result on {decided} databases where it is not empty"


def _contents(context: str, reference: str, candidate: str) -> list[Rows | None]:
    """None for the rows at hand, then the variants."""
    with Database(context) as database:
        tables = tables_of(database)
    numbers, texts = literals(reference)
    more_numbers, more_texts = literals(candidate)
    constants = [*numbers, *more_numbers], [*texts, *more_texts]
    return [None, *variants(tables, constants, VARIANTS)]


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the reference gives; several results of the rows at hand may be equally right."""

    results: tuple[Sequence[Plain], ...]
    ordered: bool

    @property
    def is_empty(self) -> bool:
        return not any(self.results)

    def has_the_rows_of(self, found: Sequence[Plain]) -> bool:
        return any(Counter(found) == Counter(result) for result in self.results)

    def has_the_order_of(self, found: Sequence[Plain]) -> bool:
        return not self.ordered or found in self.results


def _expected(context: str, reference: str, content: Rows | None) -> _Expected | None:
    """None where the reference's result is arbitrary. Raises Refused for the rows at hand only."""
    try:
        result = _run(context, reference, content)
        others = _other_orders(context, reference, content, result)
    except Refused:
        if content is None:
            raise
        return None
    if any(Counter(result) != Counter(other) for other in others):
        return _Expected((result, *others), ordered=False) if content is None else None
    ordered = is_ordered(reference) and all(result == other for other in others)
    return _Expected((result,), ordered)


def _other_orders(
    context: str, reference: str, content: Rows | None, result: Sequence[Plain]
) -> Sequence[Sequence[Plain]]:
    """Results that are as right: with tables read backwards, and with equals either way.

    Raises Refused.
    """
    others = [_run(context, reference, content, backwards=True)]
    columns = len(result[0]) if result else 0
    for descending in (False, True) if columns and is_ordered(reference) else ():
        query = with_equals_told_apart(reference, columns, descending=descending)
        # What is odd enough not to be understood keeps the order that it has.
        with suppress(Refused):
            others.append(_run(context, query, content))
    return others


def _run(
    context: str, query: str, content: Rows | None, *, backwards: bool = False
) -> Sequence[Plain]:
    with Database(context, backwards=backwards) as database:
        if content is not None:
            fill(database, content)
        return [_plain(row) for row in database.query(query)]


def _plain(row: Row) -> tuple[tuple[str, str], ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> tuple[str, str]:
    """A value as it is compared: 1 is 1.0, and a sum in another order is the same sum."""
    if value is None:
        return "null", ""
    if isinstance(value, int):
        return "number", str(value) if abs(value) >= 10**9 else f"{float(value):.9g}"
    if isinstance(value, float):
        return "number", f"{value:.9g}"
    if isinstance(value, bytes):
        return "bytes", value.hex()
    return "text", str(value)
