"""Variants of a database: other rows under the same constraints.

Two queries that agree on the rows at hand may still ask different things: `> 5` and `>= 5`, or an
answer that was copied from the rows. On many databases with the same schema they come apart. The
rows of a variant are made of those at hand and of the constants in both queries; which ones is
drawn from a fixed seed, so that a verdict can be repeated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from random import Random
from typing import Any

from palestra.resources_servers.text_to_sql.database import Database, Row, quoted

MOST_BASE_ROWS = 40
"""Rows of a table from which a variant's are made."""
MADE_UP_ROWS = 6
EMPTY_SHARE, NULL_SHARE, MIXED_SHARE, CONSTANT_SHARE = 0.05, 0.05, 0.4, 0.2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `parent`: the table that it refers to, and that table's column if it is said."""

    name: str
    declared: str
    is_required: bool
    is_key: bool
    parent: tuple[str, str | None] | None


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `rows`: of its own, or made up where it has none."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def place_of(self, column: str | None) -> int:
        """The place of a column; None: of the key."""
        for place, held in enumerate(self.columns):
            if held.name == column or (column is None and held.is_key):
                return place
        return 0


Rows = Mapping[str, Sequence[Row]]
Constants = tuple[Sequence[float | int], Sequence[str]]


def tables_of(database: Database) -> list[Table]:
    """The tables, those that others refer to first. Raises Refused."""
    found = database.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    tables = {name: _table(database, name) for (name,) in found if not name.startswith("sqlite_")}
    parents = {
        table.name: {c.parent[0] for c in table.columns if c.parent and c.parent[0] != table.name}
        for table in tables.values()
    }
    try:
        ordered = list(TopologicalSorter(parents).static_order())
    except CycleError:
        ordered = list(tables)
    return [tables[name] for name in ordered if name in tables]


def _table(database: Database, name: str) -> Table:
    refers = {row[3]: (row[2], row[4]) for row in database.describe("foreign_key_list", name)}
    columns = tuple(
        Column(column, str(declared).upper(), bool(required), bool(key), refers.get(column))
        for _, column, declared, required, _, key in database.describe("table_info", name)
    )
    listed = ", ".join(quoted(column.name) for column in columns)
    rows = database.query(f"SELECT {listed} FROM {quoted(name)} LIMIT {MOST_BASE_ROWS}")  # noqa: S608
    return Table(name, columns, tuple(rows) or _made_up(columns))


def _made_up(columns: Sequence[Column]) -> tuple[Row, ...]:
    return tuple(tuple(_first_value(column, n) for column in columns) for n in range(MADE_UP_ROWS))


def _first_value(column: Column, number: int) -> Any:
    if "INT" in column.declared:
        return number + 1
    if any(kind in column.declared for kind in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return 10.5 * (number + 1)
    if "DATE" in column.declared or "TIME" in column.declared:
        return f"2024-0{number % 3 + 1}-1{number}"
    return f"{column.name} {number if column.is_key else number % 3}"


def variants(tables: Sequence[Table], constants: Constants, count: int) -> Iterator[Rows]:
    """`count` other contents of the same tables."""
    by_name = {table.name: table for table in tables}
    for number in range(count):
        made: dict[str, list[Row]] = {}
        for table in tables:
            maker = _Maker(Random(f"{number} {table.name}"), table, constants)
            made[table.name] = list(maker.rows(by_name, made))
        yield made


def fill(database: Database, rows: Rows) -> None:
    """Replace the content of every table. Raises Refused."""
    for table in rows:
        database.empty(table)
    for table, content in rows.items():
        database.insert(table, content)


class _Maker:
    """Makes the rows of one table in one variant."""

    def __init__(self, random: Random, table: Table, constants: Constants) -> None:
        self._random = random
        self._table = table
        self._numbers, self._texts = constants

    def rows(self, tables: Mapping[str, Table], made: Rows) -> Iterator[Row]:
        """New rows; `made`: those of the tables before this one."""
        base = self._table.rows
        if self._random.random() < EMPTY_SHARE:
            return
        choices = [self._choices(column, tables, made) for column in self._table.columns]
        keys = [place for place, column in enumerate(self._table.columns) if column.is_key]
        taken: set[tuple[Any, ...]] = set()
        for number in range(self._random.randint((len(base) + 1) // 2, 2 * len(base) + 2)):
            from_row = self._random.choice(base)
            row = [
                self._value(place, from_row[place], known) for place, known in enumerate(choices)
            ]
            if len(keys) == 1 and isinstance(row[keys[0]], int) and choices[keys[0]] is None:
                row[keys[0]] = number + 1
            key = tuple(row[place] for place in keys)
            if not keys or key not in taken:
                taken.add(key)
                yield row

    def _choices(
        self, column: Column, tables: Mapping[str, Table], made: Rows
    ) -> Sequence[Any] | None:
        """What a reference may point to; None for a column that is none."""
        if column.parent is None or column.parent[0] not in made:
            return None
        place = tables[column.parent[0]].place_of(column.parent[1])
        return [row[place] for row in made[column.parent[0]]]

    def _value(self, place: int, held: Any, choices: Sequence[Any] | None) -> Any:
        column = self._table.columns[place]
        chance = self._random.random()
        if chance < NULL_SHARE and not column.is_required and not column.is_key:
            return None
        if choices is not None:
            return self._random.choice(choices) if choices else None
        if chance < MIXED_SHARE:
            return self._random.choice(self._table.rows)[place]
        if chance < MIXED_SHARE + CONSTANT_SHARE and not column.is_key:
            return self._constant(held)
        return held

    def _constant(self, held: Any) -> Any:
        """A constant of the queries, or a value near one, of the same type."""
        if isinstance(held, int | float) and self._numbers:
            near = self._random.choice((-1, 0, 0, 0, 1))
            return type(held)(self._random.choice(self._numbers) + near)
        if isinstance(held, int | float):
            return held + self._random.choice((-1, 1))
        if isinstance(held, str) and self._texts:
            return self._random.choice(self._texts)
        return held
