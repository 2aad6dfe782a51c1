"""Whether two queries give the same result: run them on the given rows and on variants.

`compare` runs in a worker process that can be killed. It takes and returns plain values.

- Results are equal when they have the same values in the same column order. Column names do not
  count.
- The order of rows counts only if the reference has an ORDER BY at its top level.
- The reference may give another result when tables are read backwards, or when rows equal under
  its ORDER BY are swapped (with a LIMIT, for example). Then this database decides nothing. If only
  the row order changes, any order is right.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from palestra.resources_servers.text_to_sql.constants import spoken_of
from palestra.resources_servers.text_to_sql.database import Database, Refused, Row, quoted
from palestra.resources_servers.text_to_sql.domains import Said
from palestra.resources_servers.text_to_sql.queries import is_ordered, with_equals_told_apart
from palestra.resources_servers.text_to_sql.variants import fill, plan

SAME, DIFFERENT, FAILED, UNDECIDED = "same", "different", "failed", "undecided"
VARIANTS: Final = 40

Plain = Sequence[tuple[str, str]]


def compare(
    context: str, reference: str, candidate: str, now: datetime | None = None
) -> tuple[str, str]:
    """Compare two queries; return a verdict and its reason. `now`: the present time (UTC) for both.

    Verdicts: `same`; `different`; `failed`: the candidate is not a query that runs here;
    `undecided`: the reference does not run, or its result was empty or arbitrary on every database.
    """
    now = now or datetime.now(UTC)
    try:
        with Database(context, now) as database:
            comparison = _Comparison(database, reference, candidate)
            return comparison.on_the_rows_at_hand() or comparison.on_variants(now)
    except Refused as error:
        return UNDECIDED, f"the reference cannot be run: {error}"


@dataclass(frozen=True, slots=True)
class _Expected:
    """The result of the reference. On the given rows, several results may be equally right."""

    results: tuple[Sequence[Plain], ...]
    ordered: bool

    @property
    def says_nothing(self) -> bool:
        """Whether the result has no rows, or only a row typical of no data: a count of 0, a sum of
        NULL.
        """
        return not any(self.results) or all(
            len(result) == 1 and all(value in _NOTHING for value in result[0])
            for result in self.results
        )

    def has_the_rows_of(self, rows: Sequence[Plain]) -> bool:
        return any(Counter(rows) == Counter(result) for result in self.results)

    def has_the_order_of(self, rows: Sequence[Plain]) -> bool:
        return not self.ordered or rows in self.results


class _Comparison:
    """Compares both queries on one database, whose rows are replaced by those of each variant."""

    def __init__(self, database: Database, reference: str, candidate: str) -> None:
        self._database = database
        self._reference = reference
        self._candidate = candidate
        self._decided = 0

    def on_the_rows_at_hand(self) -> tuple[str, str] | None:
        """Return a verdict, or None where the queries agree. Raises Refused: the reference cannot
        be run.
        """
        result = self._run(self._reference)
        others = self._other_orders(result)
        if any(Counter(result) != Counter(other_result) for other_result in others):
            return self._verdict(_Expected((result, *others), ordered=False), "the given database")
        return self._verdict(self._with_order(result, others), "the given database")

    def on_variants(self, now: datetime) -> tuple[str, str]:
        """Return the verdict from the variants. Raises Refused: the database cannot be read."""
        columns = self._columns()
        reference, candidate = (
            spoken_of(query, columns) for query in (self._reference, self._candidate)
        )
        variants = plan(self._database, Said(reference, candidate, now))
        self._drop_triggers()
        for number in range(1, VARIANTS + 1):
            try:
                fill(self._database, variants, number)
                result = self._run(self._reference)
                others = self._other_orders(result)
            except Refused:
                continue
            expected = self._with_order(result, others)
            if any(Counter(result) != Counter(other_result) for other_result in others):
                continue
            where = f"variant {number} of the database"
            if expected.says_nothing:
                natural = variants.manner(number).exchanges_only
                verdict = self._something_for_nothing(where) if natural else None
            else:
                verdict = self._verdict(expected, where)
            if verdict:
                return verdict
        if not self._decided:
            return UNDECIDED, "the reference's result is empty or arbitrary on every database"
        return SAME, f"the same result on {self._decided} databases where it says something"

    def _verdict(self, expected: _Expected, where: str) -> tuple[str, str] | None:
        try:
            result = self._run(self._candidate)
        except Refused as error:
            return FAILED, str(error)
        if not expected.has_the_rows_of(result):
            return DIFFERENT, f"another result on {where}"
        if not expected.has_the_order_of(result):
            return DIFFERENT, f"another order on {where}"
        self._decided += not expected.says_nothing
        return None

    def _something_for_nothing(self, where: str) -> tuple[str, str] | None:
        """Return a verdict for a variant that keeps all old values but gives the reference an empty
        result.

        `different` if the candidate's result has data. None if it is empty too, or a single row
        with a NULL or a 0.
        """
        try:
            result = self._run(self._candidate)
        except Refused:
            return None
        if len(result) <= 1 and all(any(v in _NOTHING for v in row) for row in result):
            return None
        return DIFFERENT, f"a result where there is none, on {where}"

    def _with_order(self, result: Sequence[Plain], others: Sequence[Sequence[Plain]]) -> _Expected:
        ordered = is_ordered(self._reference) and all(
            result == other_result for other_result in others
        )
        return _Expected((result,), ordered)

    def _other_orders(self, result: Sequence[Plain]) -> Sequence[Sequence[Plain]]:
        """Return equally right results: with tables read backwards, and with ties broken both ways.

        Raises Refused: the reference cannot be run.
        """
        others = [self._run(self._reference, backwards=True)]
        columns = len(result[0]) if result else 0
        for descending in (False, True) if columns and is_ordered(self._reference) else ():
            query = with_equals_told_apart(self._reference, columns, descending=descending)
            # What is odd enough not to be understood keeps the order that it has.
            with suppress(Refused):
                others.append(self._run(query))
        return others

    def _run(self, query: str, *, backwards: bool = False) -> Sequence[Plain]:
        return [_plain(row) for row in self._database.query(query, backwards=backwards)]

    def _columns(self) -> set[str]:
        tables = self._database.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        described = [self._database.describe("table_info", name) for (name,) in tables]
        return {column[1] for columns in described for column in columns}

    def _drop_triggers(self) -> None:
        """Drop all triggers, so that they do not change the rows of a variant."""
        for (name,) in self._database.query(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ):
            self._database.change(f"DROP TRIGGER {quoted(name)}")


def _plain(row: Row) -> tuple[tuple[str, str], ...]:
    return tuple(_value(value) for value in row)


_NOTHING: Final = (("null", ""), ("number", "0"))


def _value(value: Any) -> tuple[str, str]:
    """Return a value in a comparable form: 1 equals 1.0, and the rounding of sums does not count."""
    if value is None:
        return "null", ""
    if isinstance(value, int | float):
        return "number", _number(value)
    if isinstance(value, bytes):
        return "bytes", value.hex()
    return "text", str(value)


def _number(value: float) -> str:
    """Write a number with eight digits, the precision of time differences in days; a large whole
    number in full.
    """
    if abs(value) < 10**8:
        return f"{value + 0.0:.8g}"
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.12g}"
