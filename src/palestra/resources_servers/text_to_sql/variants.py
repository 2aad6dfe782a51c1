"""Variants of a database: other rows that the same database could hold.

Two queries that agree on the given rows may still mean different things: `> 5` and `>= 5`, or an
answer copied from the rows. On many databases with the same schema their results differ. A variant
contains only what the schema and the given rows allow: `tables` finds the rules among rows,
`domains` the values of a column. Random draws use a fixed seed, so that a verdict can be repeated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from palestra.resources_servers.text_to_sql.database import Database, Refused, Row, quoted
from palestra.resources_servers.text_to_sql.declared import Reference, first_value
from palestra.resources_servers.text_to_sql.domains import Said, domain_of
from palestra.resources_servers.text_to_sql.tables import Table, folded, tables_of
from palestra.resources_servers.text_to_sql.values import Moments, ValueDomain

KEPT_SHARE, MOVED_SHARE = 0.85, 0.6
CHANGED_SHARES = (0.1, 0.3, 0.6)
"""The possible shares of changed values; one is drawn for each table of a variant."""
COMPARED_SHARE = 0.5
"""The share of changed values in columns that a query compares, where the queries can differ."""
NULL_SHARE, ASKED_NULL_SHARE = 0.05, 0.25
MOST_MORE = 6
"""The most extra rows of a variant above twice the number of rows."""
MOST_TRIES = 8
"""The most attempts to make a row that is unique where it must be."""
MANY_MORE = 60
"""The number of extra rows per table in variants that should exceed the LIMIT of a query."""
FAVOURED_SHARE = 0.5
"""The share of references that point to the favoured row."""


@dataclass(frozen=True, slots=True)
class _Manner:
    """The special features of a variant.

    Random rows alone may rarely show a difference between two queries. So some variants get special
    rows: names exchanged between rows, many matching rows, or one row that most others refer to.
    """

    exchanges: bool
    """Whether names and keys that queries compare are exchanged between rows of the table."""
    exchanges_only: bool
    """Whether the exchange is the only change, so that every old value is kept."""
    more: int
    """The number of extra rows of each table."""
    favours: bool
    """Whether many references point to one row."""


def _manner(number: int, *, can_exchange: bool) -> _Manner:
    """Return the manner of variant `number`. `can_exchange`: whether any table has columns to
    exchange.
    """
    exchanges_only = can_exchange and number % 10 == 2
    return _Manner(
        exchanges=exchanges_only or (can_exchange and number % 3 == 0),
        exchanges_only=exchanges_only,
        more=MANY_MORE if number % 20 == 7 else 0,
        favours=number % 4 == 1,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything needed to fill the tables of a variant."""

    tables: Sequence[Table]
    domains: Mapping[str, Sequence[ValueDomain]]
    """By table: the domain of each column."""
    null_shares: Mapping[str, Sequence[float]]
    """By table: for each column, the share of values to make NULL, in addition to those already
    NULL."""
    compared: Mapping[str, Collection[int]]
    """By table: the columns that a query compares."""

    def manner(self, number: int) -> _Manner:
        """Return the manner of variant `number`."""
        return _manner(number, can_exchange=any(map(self.exchanged, self.tables)))

    def exchanged(self, table: Table) -> list[int]:
        """Return the unique columns that a query compares, which identify a table's rows."""
        single = {column_indices[0] for column_indices in table.unique if len(column_indices) == 1}
        return sorted(single & set(self.compared[table.name])) if len(table.base) > 1 else []


def plan(database: Database, spoken_constants: Said) -> Plan:
    """Analyze a database for its variants. Raises Refused: a table cannot be read."""
    tables = tables_of(database, spoken_constants.reference.joined())
    return Plan(
        tables,
        {table.name: _domains(table, spoken_constants) for table in tables},
        {table.name: _null_shares(table, spoken_constants) for table in tables},
        {table.name: _compared(table, spoken_constants) for table in tables},
    )


def _domains(table: Table, spoken_constants: Said) -> list[ValueDomain]:
    domains = []
    for column_index, column in enumerate(table.columns):
        values = table.held(column_index)
        asks_null = spoken_constants.reference.null(column.name)
        if not values and (asks_null or spoken_constants.reference.numbers(column.name)):
            # Nothing but NULL at hand, and yet the query asks for something else.
            values = [first_value(column, number) for number in range(3)]
        is_unique = (column_index,) in table.unique
        domains.append(
            domain_of(
                column, values, spoken_constants, is_made_up=table.is_made_up, is_unique=is_unique
            )
        )
    return domains


def _compared(table: Table, spoken_constants: Said) -> frozenset[int]:
    return frozenset(
        column_index
        for column_index, column in enumerate(table.columns)
        if any(spoken.compares(column.name) for spoken in spoken_constants.both)
    )


def _null_shares(table: Table, spoken_constants: Said) -> list[float]:
    shares = []
    for column_index, column in enumerate(table.columns):
        may = not column.is_required and not column.is_key and (column_index,) not in table.unique
        asks_null = may and spoken_constants.reference.null(column.name)
        has = may and any(row[column_index] is None for row in table.rows)
        shares.append(ASKED_NULL_SHARE if asks_null else NULL_SHARE if has else 0.0)
    return shares


def fill(database: Database, variant_plan: Plan, number: int) -> None:
    """Replace the rows of every table by those of variant `number`. Raises Refused: a statement
    fails.
    """
    for table in variant_plan.tables:
        database.change(f"DELETE FROM {quoted(table.name)}")  # noqa: S608
    manner = variant_plan.manner(number)
    for table in variant_plan.tables:
        _Maker(Random(f"{number} {table.name}"), database, table, variant_plan, manner).fill()
    for _ in variant_plan.tables:
        if not sum(_repair(database, table) for table in variant_plan.tables):
            break


def _repair(database: Database, table: Table) -> int:
    """Remove references to rows that do not exist; return how many rows changed."""
    changed = 0
    for reference in table.references:
        columns_here = [table.columns[column_index] for column_index in reference.places]
        same = " AND ".join(
            f"p.{quoted(theirs)} IS {quoted(table.name)}.{quoted(ours.name)}"
            for ours, theirs in zip(columns_here, reference.columns, strict=True)
        )
        not_null = " AND ".join(f"{quoted(column.name)} IS NOT NULL" for column in columns_here)
        where = (
            f"{not_null} AND NOT EXISTS (SELECT 1 FROM {quoted(reference.parent)} p WHERE {same})"  # noqa: S608
        )
        if not any(column.is_required or column.is_key for column in columns_here):
            none = ", ".join(f"{quoted(column.name)} = NULL" for column in columns_here)
            update = f"UPDATE OR IGNORE {quoted(table.name)} SET {none} WHERE {where}"  # noqa: S608
            changed += database.change(update)
        changed += database.change(f"DELETE FROM {quoted(table.name)} WHERE {where}")  # noqa: S608
    return changed


class _Maker:
    """Makes the rows of one table for one variant."""

    def __init__(
        self, random: Random, database: Database, table: Table, variant_plan: Plan, manner: _Manner
    ) -> None:
        self._random = random
        self._manner = manner
        self._database = database
        self._table = table
        self._domains = variant_plan.domains[table.name]
        self._null_shares = variant_plan.null_shares[table.name]
        share = random.choice(CHANGED_SHARES)
        compared = variant_plan.compared[table.name]
        self._shares = [
            max(share, COMPARED_SHARE) if column_index in compared and not manner.more else share
            for column_index in range(len(table.columns))
        ]
        names = ", ".join(quoted(column.name) for column in table.columns)
        placeholders = ", ".join("?" * len(table.columns))
        self._statement = (
            f"INSERT OR IGNORE INTO {quoted(table.name)} ({names}) VALUES ({placeholders})"  # noqa: S608
        )
        self._base = table.base
        if manner.exchanges:
            self._base = _exchanged(table.base, variant_plan.exchanged(table), random)
        self._single = {placeholders[0] for placeholders in table.unique if len(placeholders) == 1}
        self._taken: dict[tuple[int, ...], set[tuple[Any, ...]]] = {p: set() for p in table.unique}
        self._determined = [
            (first, second, {row[first]: row[second] for row in table.rows})
            for first, second in table.determined
        ]

    def fill(self) -> None:
        """Add rows to the table, at least one if possible. Raises Refused: a statement fails."""
        if self._manner.exchanges_only:
            self._insert_all()
            return
        choices = {reference: self._choices(reference) for reference in self._table.references}
        kept_rows = [row for row in self._base if self._random.random() < KEPT_SHARE]
        drawn = self._random.randint(1, len(self._base) + MOST_MORE)
        new_rows = self._random.choices(self._base, k=drawn + self._manner.more)
        added = sum(self._add(row, choices, is_new=False) for row in kept_rows or self._base[:1])
        added += sum(self._add(row, choices, is_new=True) for row in new_rows)
        if not added:
            self._insert_all()

    def _insert_all(self) -> None:
        for row in self._base:
            self._insert(row)

    def _choices(self, reference: Reference) -> list[Row]:
        """Return the rows that a reference may point to. For its own table, these are the old rows."""
        if reference.parent == self._table.name:
            column_indices = [self._index_of(name) for name in reference.columns]
            return [[row[column_index] for column_index in column_indices] for row in self._base]
        listed = ", ".join(quoted(column) for column in reference.columns)
        try:
            return self._database.query(f"SELECT {listed} FROM {quoted(reference.parent)}")  # noqa: S608
        except Refused:
            return []

    def _index_of(self, name: str) -> int:
        return [column.name.lower() for column in self._table.columns].index(name.lower())

    def _add(self, row_held: Row, choices: Mapping[Reference, list[Row]], *, is_new: bool) -> bool:
        """Add a row made from an old row; return whether that was possible."""
        for number in range(MOST_TRIES):
            row = self._make_row(row_held, choices, is_new=is_new or number > 0)
            keys = {
                column_indices: tuple(folded(row[column_index]) for column_index in column_indices)
                for column_indices in self._taken
            }
            if any(self._is_taken(column_indices, key) for column_indices, key in keys.items()):
                continue
            if not self._insert(row):
                continue
            for column_indices, key in keys.items():
                self._taken[column_indices].add(key)
            return True
        return False

    def _is_taken(self, column_indices: tuple[int, ...], key: tuple[Any, ...]) -> bool:
        # As in SQLite, NULL equals nothing; but rows without a key are to differ as a whole.
        is_whole = len(column_indices) == len(self._table.columns)
        return key in self._taken[column_indices] and (is_whole or None not in key)

    def _insert(self, row: Row) -> bool:
        return self._database.change(self._statement, row) > 0

    def _make_row(
        self, row_held: Row, choices: Mapping[Reference, list[Row]], *, is_new: bool
    ) -> list[Any]:
        row = [
            self._value(column_index, value, is_new=is_new)
            for column_index, value in enumerate(row_held)
        ]
        for reference in self._table.references:
            self._refer(row, reference, choices[reference], is_new=is_new)
        for _ in range(2):
            for first, second, second_by_first in self._determined:
                if row[first] is not None:
                    row[second] = second_by_first.setdefault(row[first], row[second])
        for first, second in self._table.ordered:
            self._order(row, row_held, first, second)
        return row

    def _order(self, row: list[Any], row_held: Row, first: int, second: int) -> None:
        """Keep one moment before the other: restore their old distance, or else swap them."""
        earlier, later = row[first], row[second]
        if earlier is None or later is None or earlier <= later:
            return
        domain = self._domains[second]
        if isinstance(domain, Moments) and None not in (row_held[first], row_held[second]):
            then = domain.as_far(earlier, row_held[first], row_held[second])
            if then is not None:
                row[second] = then
                return
        row[first], row[second] = later, earlier

    def _value(self, column_index: int, current: Any, *, is_new: bool) -> Any:
        random, domain = self._random, self._domains[column_index]
        if random.random() < self._null_shares[column_index]:
            return None
        if column_index in self._single:
            if is_new or random.random() < self._shares[column_index] / 3:
                return (
                    domain.fresh(random, current)
                    if random.random() < 0.7
                    else domain.another(random, current)
                )
            return current
        if random.random() >= self._shares[column_index]:
            return current
        if random.random() < 0.4:
            return random.choice(self._base)[column_index]
        return domain.another(random, current)

    def _refer(
        self, row: list[Any], reference: Reference, choices: list[Row], *, is_new: bool
    ) -> None:
        """Set a reference to an existing row. A NULL reference may stay NULL."""
        current = tuple(row[column_index] for column_index in reference.places)
        if None in current and self._random.random() < 0.5:
            return
        if choices and (
            is_new
            or self._random.random() < MOVED_SHARE
            or all(tuple(choice) != current for choice in choices)
        ):
            is_favoured = self._manner.favours and self._random.random() < FAVOURED_SHARE
            chosen = choices[0] if is_favoured else self._random.choice(choices)
            for column_index, value in zip(reference.places, chosen, strict=True):
                row[column_index] = value


def _exchanged(base: Sequence[Row], column_indices: Sequence[int], random: Random) -> list[Row]:
    """Return the rows with the values of these columns exchanged between rows."""
    rows = [list(row) for row in base]
    for column_index in column_indices:
        by = random.randrange(1, len(base))
        for number, row in enumerate(rows):
            row[column_index] = base[(number + by) % len(base)][column_index]
    return list(rows)
