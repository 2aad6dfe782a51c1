"""`Table`: what is known of a database's tables: columns, rows, and what holds for all rows.

The schema says a part of it: keys, references, what must not be NULL. The rows say the rest, see
`holding`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from random import Random
from typing import Any

from palestra.resources_servers.text_to_sql.database import Database, Row
from palestra.resources_servers.text_to_sql.declared import (
    Column,
    Declared,
    Places,
    Reference,
    read_table,
)
from palestra.resources_servers.text_to_sql.holding import determined, ordered, undeclared, unique
from palestra.resources_servers.text_to_sql.made_up import made_up

MOST_BASE_ROWS = 40
"""Rows of a table from which a variant's are made."""
MOST_COLUMNS_COMPARED = 30


@dataclass(frozen=True, slots=True)
class Table:
    """One table, and what holds in it."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """Its own, or some that were made up where it has none."""
    is_made_up: bool
    references: tuple[Reference, ...]
    unique: tuple[Places, ...]
    """Columns whose values together never come twice."""
    determined: tuple[tuple[int, int], ...]
    """Pairs of columns: a value of the first always comes with the same value of the second."""
    ordered: tuple[tuple[int, int], ...]
    """Pairs of moments: the first is never after the second."""

    @property
    def base(self) -> list[Row]:
        """The rows from which a variant's are made, in the table's order."""
        if len(self.rows) <= MOST_BASE_ROWS:
            return list(self.rows)
        return [
            self.rows[i] for i in sorted(Random(0).sample(range(len(self.rows)), MOST_BASE_ROWS))
        ]

    def held(self, place: int) -> list[Any]:
        """The values of a column that are not NULL."""
        return [row[place] for row in self.rows if row[place] is not None]

    def referring(self) -> set[int]:
        """The places of columns that are part of a reference."""
        return {place for reference in self.references for place in reference.places}


def tables_of(database: Database, joined: Collection[frozenset[str]] = ()) -> list[Table]:
    """The tables, those that others refer to first. Raises Refused.

    `joined`: pairs of columns' names, in lower case, that the reference query equates.
    """
    found = database.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    names = [name for (name,) in found if not name.startswith("sqlite_")]
    read = {name: read_table(database, name) for name in names}
    tables = {name: _known(one, list(read.values()), joined) for name, one in read.items()}
    parents = {
        name: {reference.parent for reference in table.references} - {name}
        for name, table in tables.items()
    }
    try:
        ordered = list(TopologicalSorter(parents).static_order())
    except CycleError:
        ordered = list(tables)
    return [tables[name] for name in ordered if name in tables]


def _known(read: Declared, others: Sequence[Declared], joined: Collection[frozenset[str]]) -> Table:
    named = {other.name.lower(): other for other in others}
    declared = tuple(
        Reference(one.places, parent.name, one.columns)
        for one in read.references
        if (parent := named.get(one.parent.lower()))
        and all(parent.place(column) is not None for column in one.columns)
    )
    references = (*declared, *undeclared(read, declared, others, joined))
    referring = {place for reference in references for place in reference.places}
    rows = read.rows or made_up(read.columns)
    alone = unique(read, rows, referring)
    single = {places[0] for places in alone if len(places) == 1}
    free = [p for p in range(len(read.columns)) if p not in single][:MOST_COLUMNS_COMPARED]
    return Table(
        name=read.name,
        columns=read.columns,
        rows=rows,
        is_made_up=not read.rows,
        references=references,
        unique=alone,
        determined=tuple(determined(read, free, referring)),
        ordered=tuple(ordered(read.rows, len(read.columns))),
    )
