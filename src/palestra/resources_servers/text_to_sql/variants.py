"""Variants of a database: other rows that it could hold as well.

Two queries that agree on the rows at hand may still ask different things: `> 5` and `>= 5`, or an
answer that was copied from the rows. On many databases with the same schema they come apart. What
a variant holds is what the schema and the rows at hand allow: see `tables` for what holds among
rows, `domains` for what a column may hold. What is drawn is drawn from a fixed seed, so that a
verdict can be repeated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from palestra.resources_servers.text_to_sql.database import Database, Refused, Row, quoted
from palestra.resources_servers.text_to_sql.declared import Reference, first_value
from palestra.resources_servers.text_to_sql.domains import Said, domain_of
from palestra.resources_servers.text_to_sql.tables import Table, folded, tables_of
from palestra.resources_servers.text_to_sql.values import Domain, Moments

KEPT_SHARE, MOVED_SHARE = 0.85, 0.6
CHANGED_SHARES = (0.1, 0.3, 0.6)
"""How many of a variant's values are changed: one of these."""
COMPARED_SHARE = 0.5
"""The same where a query compares the column: it is there that the queries come apart."""
NULL_SHARE, ASKED_NULL_SHARE = 0.05, 0.25
MOST_MORE = 6
"""Rows of a variant beyond twice as many as there are."""
MOST_TRIES = 8
"""To make a row that no other is equal to where none may be."""
MANY_MORE = 60
"""Rows more of each table, where there are to be more than a LIMIT by guess lets through."""
FAVOURED_SHARE = 0.5
"""How many references go to one row, where one is favoured."""


@dataclass(frozen=True, slots=True)
class _Manner:
    """What one of the variants has that not all have.

    What tells two queries apart may be rare when rows are drawn alone: a name that is another
    row's, many rows that match, one row that most others refer to. So some variants are made for
    it.
    """

    exchanges: bool
    """Names and keys that queries compare are given to other rows of the table."""
    exchanges_only: bool
    """And nothing else is changed: every value that was there still is."""
    more: int
    """Rows of each table beyond those that are drawn."""
    favours: bool
    """Many references go to one row."""


def _manner(number: int, *, can_exchange: bool) -> _Manner:
    """The manner of the variant of a number. `can_exchange`: whether a table has what to."""
    exchanges_only = can_exchange and number % 10 == 2
    return _Manner(
        exchanges=exchanges_only or (can_exchange and number % 3 == 0),
        exchanges_only=exchanges_only,
        more=MANY_MORE if number % 20 == 7 else 0,
        favours=number % 4 == 1,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What is needed to fill the tables with another content."""

    tables: Sequence[Table]
    domains: Mapping[str, Sequence[Domain]]
    """By table, one for each column."""
    null_shares: Mapping[str, Sequence[float]]
    """By table, how many of a column's values are NULL; beside those that are so at hand."""
    compared: Mapping[str, Collection[int]]
    """By table, the columns that a query compares with something."""

    def manner(self, number: int) -> _Manner:
        """How the variant of a number is made."""
        return _manner(number, can_exchange=any(map(self.exchanged, self.tables)))

    def exchanged(self, table: Table) -> list[int]:
        """The columns without repetition that a query compares: what names a table's rows."""
        single = {places[0] for places in table.unique if len(places) == 1}
        return sorted(single & set(self.compared[table.name])) if len(table.base) > 1 else []


def plan(database: Database, said: Said) -> Plan:
    """Learn from a database how its variants are made. Raises Refused."""
    tables = tables_of(database, said.reference.joined())
    return Plan(
        tables,
        {table.name: _domains(table, said) for table in tables},
        {table.name: _null_shares(table, said) for table in tables},
        {table.name: _compared(table, said) for table in tables},
    )


def _domains(table: Table, said: Said) -> list[Domain]:
    made = []
    for place, column in enumerate(table.columns):
        values = table.held(place)
        asked = said.reference.null(column.name)
        if not values and (asked or said.reference.numbers(column.name)):
            # Nothing but NULL at hand, and yet the query asks for something else.
            values = [first_value(column, number) for number in range(3)]
        is_unique = (place,) in table.unique
        made.append(
            domain_of(column, values, said, is_made_up=table.is_made_up, is_unique=is_unique)
        )
    return made


def _compared(table: Table, said: Said) -> frozenset[int]:
    return frozenset(
        place
        for place, column in enumerate(table.columns)
        if any(spoken.compares(column.name) for spoken in said.both)
    )


def _null_shares(table: Table, said: Said) -> list[float]:
    shares = []
    for place, column in enumerate(table.columns):
        may = not column.is_required and not column.is_key and (place,) not in table.unique
        asked = may and said.reference.null(column.name)
        has = may and any(row[place] is None for row in table.rows)
        shares.append(ASKED_NULL_SHARE if asked else NULL_SHARE if has else 0.0)
    return shares


def fill(database: Database, made: Plan, number: int) -> None:
    """Replace the content of every table by that of the variant of this number. Raises Refused."""
    for table in made.tables:
        database.change(f"DELETE FROM {quoted(table.name)}")  # noqa: S608
    manner = made.manner(number)
    for table in made.tables:
        _Maker(Random(f"{number} {table.name}"), database, table, made, manner).fill()
    for _ in made.tables:
        if not sum(_repair(database, table) for table in made.tables):
            break


def _repair(database: Database, table: Table) -> int:
    """Remove references to rows that there are not; how many."""
    changed = 0
    for reference in table.references:
        own = [table.columns[place] for place in reference.places]
        same = " AND ".join(
            f"p.{quoted(theirs)} IS {quoted(table.name)}.{quoted(ours.name)}"
            for ours, theirs in zip(own, reference.columns, strict=True)
        )
        given = " AND ".join(f"{quoted(column.name)} IS NOT NULL" for column in own)
        where = f"{given} AND NOT EXISTS (SELECT 1 FROM {quoted(reference.parent)} p WHERE {same})"  # noqa: S608
        if not any(column.is_required or column.is_key for column in own):
            none = ", ".join(f"{quoted(column.name)} = NULL" for column in own)
            update = f"UPDATE OR IGNORE {quoted(table.name)} SET {none} WHERE {where}"  # noqa: S608
            changed += database.change(update)
        changed += database.change(f"DELETE FROM {quoted(table.name)} WHERE {where}")  # noqa: S608
    return changed


class _Maker:
    """Makes the rows of one table in one variant."""

    def __init__(
        self, random: Random, database: Database, table: Table, made: Plan, manner: _Manner
    ) -> None:
        self._random = random
        self._manner = manner
        self._database = database
        self._table = table
        self._domains = made.domains[table.name]
        self._null_shares = made.null_shares[table.name]
        share = random.choice(CHANGED_SHARES)
        compared = made.compared[table.name]
        self._shares = [
            max(share, COMPARED_SHARE) if place in compared and not manner.more else share
            for place in range(len(table.columns))
        ]
        names = ", ".join(quoted(column.name) for column in table.columns)
        places = ", ".join("?" * len(table.columns))
        self._statement = f"INSERT OR IGNORE INTO {quoted(table.name)} ({names}) VALUES ({places})"  # noqa: S608
        self._base = table.base
        if manner.exchanges:
            self._base = _exchanged(table.base, made.exchanged(table), random)
        self._single = {places[0] for places in table.unique if len(places) == 1}
        self._taken: dict[tuple[int, ...], set[tuple[Any, ...]]] = {p: set() for p in table.unique}
        self._determined = [
            (first, second, {row[first]: row[second] for row in table.rows})
            for first, second in table.determined
        ]

    def fill(self) -> None:
        """Add rows to the table, one at least where any can be. Raises Refused."""
        if self._manner.exchanges_only:
            self._insert_all()
            return
        choices = {one: self._choices(one) for one in self._table.references}
        kept = [row for row in self._base if self._random.random() < KEPT_SHARE]
        drawn = self._random.randint(1, len(self._base) + MOST_MORE)
        more = self._random.choices(self._base, k=drawn + self._manner.more)
        added = sum(self._add(row, choices, is_new=False) for row in kept or self._base[:1])
        added += sum(self._add(row, choices, is_new=True) for row in more)
        if not added:
            self._insert_all()

    def _insert_all(self) -> None:
        for row in self._base:
            self._insert(row)

    def _choices(self, reference: Reference) -> list[Row]:
        """What a reference may point to; of its own table, what that held."""
        if reference.parent == self._table.name:
            places = [self._place(name) for name in reference.columns]
            return [[row[place] for place in places] for row in self._base]
        listed = ", ".join(quoted(column) for column in reference.columns)
        try:
            return self._database.query(f"SELECT {listed} FROM {quoted(reference.parent)}")  # noqa: S608
        except Refused:
            return []

    def _place(self, name: str) -> int:
        return [column.name.lower() for column in self._table.columns].index(name.lower())

    def _add(self, held: Row, choices: Mapping[Reference, list[Row]], *, is_new: bool) -> bool:
        """Add a row made of one that is held; whether that could be done."""
        for number in range(MOST_TRIES):
            row = self._made(held, choices, is_new=is_new or number > 0)
            keys = {places: tuple(folded(row[place]) for place in places) for places in self._taken}
            if any(self._is_taken(places, key) for places, key in keys.items()):
                continue
            if not self._insert(row):
                continue
            for places, key in keys.items():
                self._taken[places].add(key)
            return True
        return False

    def _is_taken(self, places: tuple[int, ...], key: tuple[Any, ...]) -> bool:
        # As in SQLite, NULL equals nothing; but rows without a key are to differ as a whole.
        is_whole = len(places) == len(self._table.columns)
        return key in self._taken[places] and (is_whole or None not in key)

    def _insert(self, row: Row) -> bool:
        return self._database.change(self._statement, row) > 0

    def _made(
        self, held: Row, choices: Mapping[Reference, list[Row]], *, is_new: bool
    ) -> list[Any]:
        row = [self._value(place, value, is_new=is_new) for place, value in enumerate(held)]
        for reference in self._table.references:
            self._refer(row, reference, choices[reference], is_new=is_new)
        for _ in range(2):
            for first, second, known in self._determined:
                if row[first] is not None:
                    row[second] = known.setdefault(row[first], row[second])
        for first, second in self._table.ordered:
            self._order(row, held, first, second)
        return row

    def _order(self, row: list[Any], held: Row, first: int, second: int) -> None:
        """Keep one moment before the other: as long before as it was, or else swap them."""
        earlier, later = row[first], row[second]
        if earlier is None or later is None or earlier <= later:
            return
        domain = self._domains[second]
        if isinstance(domain, Moments) and None not in (held[first], held[second]):
            then = domain.as_far(earlier, held[first], held[second])
            if then is not None:
                row[second] = then
                return
        row[first], row[second] = later, earlier

    def _value(self, place: int, held: Any, *, is_new: bool) -> Any:
        random, domain = self._random, self._domains[place]
        if random.random() < self._null_shares[place]:
            return None
        if place in self._single:
            if is_new or random.random() < self._shares[place] / 3:
                return (
                    domain.fresh(random, held)
                    if random.random() < 0.7
                    else domain.another(random, held)
                )
            return held
        if random.random() >= self._shares[place]:
            return held
        if random.random() < 0.4:
            return random.choice(self._base)[place]
        return domain.another(random, held)

    def _refer(
        self, row: list[Any], reference: Reference, choices: list[Row], *, is_new: bool
    ) -> None:
        """Point to a row that there is; a reference that was made NULL stays so."""
        given = tuple(row[place] for place in reference.places)
        if None in given and self._random.random() < 0.5:
            return
        if choices and (
            is_new
            or self._random.random() < MOVED_SHARE
            or all(tuple(choice) != given for choice in choices)
        ):
            is_favoured = self._manner.favours and self._random.random() < FAVOURED_SHARE
            chosen = choices[0] if is_favoured else self._random.choice(choices)
            for place, value in zip(reference.places, chosen, strict=True):
                row[place] = value


def _exchanged(base: Sequence[Row], places: Sequence[int], random: Random) -> list[Row]:
    """Rows of which each has what another one had in these columns."""
    rows = [list(row) for row in base]
    for place in places:
        by = random.randrange(1, len(base))
        for number, row in enumerate(rows):
            row[place] = base[(number + by) % len(base)][place]
    return list(rows)
