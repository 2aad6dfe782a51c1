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
    """A verdict and what it rests on. `now`: what both take for the present (UTC).

    `same`, `different`; `failed`: the candidate is no query that runs here; `undecided`: the
    reference is none, or its result is empty or arbitrary wherever it was run.
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
    """What the reference gives; several results of the rows at hand may be equally right."""

    results: tuple[Sequence[Plain], ...]
    ordered: bool

    @property
    def says_nothing(self) -> bool:
        """No row, or one that is what is told of no rows: a count of 0, a sum of NULL."""
        return not any(self.results) or all(
            len(result) == 1 and all(value in _NOTHING for value in result[0])
            for result in self.results
        )

    def has_the_rows_of(self, found: Sequence[Plain]) -> bool:
        return any(Counter(found) == Counter(result) for result in self.results)

    def has_the_order_of(self, found: Sequence[Plain]) -> bool:
        return not self.ordered or found in self.results


class _Comparison:
    """Both queries on one database, whose content is replaced by that of its variants."""

    def __init__(self, database: Database, reference: str, candidate: str) -> None:
        self._database = database
        self._reference = reference
        self._candidate = candidate
        self._decided = 0

    def on_the_rows_at_hand(self) -> tuple[str, str] | None:
        """A verdict, or None where they agree. Raises Refused when the reference cannot be run."""
        result = self._run(self._reference)
        others = self._other_orders(result)
        if any(Counter(result) != Counter(other) for other in others):
            return self._verdict(_Expected((result, *others), ordered=False), "the given database")
        return self._verdict(self._with_order(result, others), "the given database")

    def on_variants(self, now: datetime) -> tuple[str, str]:
        """The verdict. Raises Refused when the database cannot be read."""
        columns = self._columns()
        reference, candidate = (
            spoken_of(query, columns) for query in (self._reference, self._candidate)
        )
        made = plan(self._database, Said(reference, candidate, now))
        self._drop_triggers()
        for number in range(1, VARIANTS + 1):
            try:
                fill(self._database, made, number)
                result = self._run(self._reference)
                others = self._other_orders(result)
            except Refused:
                continue
            wanted = self._with_order(result, others)
            if any(Counter(result) != Counter(other) for other in others):
                continue
            where = f"variant {number} of the database"
            if wanted.says_nothing:
                natural = made.manner(number).exchanges_only
                verdict = self._something_for_nothing(where) if natural else None
            else:
                verdict = self._verdict(wanted, where)
            if verdict:
                return verdict
        if not self._decided:
            return UNDECIDED, "the reference's result is empty or arbitrary on every database"
        return SAME, f"the same result on {self._decided} databases where it says something"

    def _verdict(self, wanted: _Expected, where: str) -> tuple[str, str] | None:
        try:
            found = self._run(self._candidate)
        except Refused as error:
            return FAILED, str(error)
        if not wanted.has_the_rows_of(found):
            return DIFFERENT, f"another result on {where}"
        if not wanted.has_the_order_of(found):
            return DIFFERENT, f"another order on {where}"
        self._decided += not wanted.says_nothing
        return None

    def _something_for_nothing(self, where: str) -> tuple[str, str] | None:
        """A verdict where the reference says nothing on rows in which all that it names is there.

        None where the candidate says no more, though it may be a NULL or a 0.
        """
        try:
            found = self._run(self._candidate)
        except Refused:
            return None
        if len(found) <= 1 and all(any(v in _NOTHING for v in row) for row in found):
            return None
        return DIFFERENT, f"a result where there is none, on {where}"

    def _with_order(self, result: Sequence[Plain], others: Sequence[Sequence[Plain]]) -> _Expected:
        ordered = is_ordered(self._reference) and all(result == other for other in others)
        return _Expected((result,), ordered)

    def _other_orders(self, result: Sequence[Plain]) -> Sequence[Sequence[Plain]]:
        """Results that are as right: with tables read backwards, and with equals either way.

        Raises Refused.
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
        """A variant's rows are meant as they are."""
        for (name,) in self._database.query(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ):
            self._database.change(f"DROP TRIGGER {quoted(name)}")


def _plain(row: Row) -> tuple[tuple[str, str], ...]:
    return tuple(_value(value) for value in row)


_NOTHING: Final = (("null", ""), ("number", "0"))


def _value(value: Any) -> tuple[str, str]:
    """A value as it is compared: 1 is 1.0, and a sum in another order is the same sum."""
    if value is None:
        return "null", ""
    if isinstance(value, int | float):
        return "number", _number(value)
    if isinstance(value, bytes):
        return "bytes", value.hex()
    return "text", str(value)


def _number(value: float) -> str:
    """Eight digits, since a time between two moments is known to no more in days; large ones all."""
    if abs(value) < 10**8:
        return f"{value + 0.0:.8g}"
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.12g}"
