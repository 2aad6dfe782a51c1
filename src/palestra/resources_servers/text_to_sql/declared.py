"""Read the tables of a database: columns, keys and references from the schema, and the rows.

An empty table gets made-up rows, from the names and types of its columns only.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.resources_servers.text_to_sql.database import Database, Row, quoted

MOST_ROWS_READ = 5000
"""The most rows of a table that are read to analyze it."""

Places = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as declared in the schema."""

    name: str
    declared: str
    is_required: bool
    is_key: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: columns of a table that point to a row of another table by columns of that
    table.
    """

    places: Places
    parent: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """A table as read from the database, before its rows are analyzed."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    references: tuple[Reference, ...]
    unique: tuple[Places, ...]

    @property
    def key(self) -> Places:
        return next(iter(self.unique), ())

    def place(self, name: str) -> int | None:
        names = [column.name.lower() for column in self.columns]
        return names.index(name.lower()) if name.lower() in names else None


def read_table(database: Database, name: str) -> Declared:
    """Read a table. Raises Refused: it cannot be read."""
    described = database.describe("table_info", name)
    columns = tuple(
        Column(column, str(declared).upper(), bool(required), bool(key))
        for _, column, declared, required, _, key in described
    )
    indices = {column.name.lower(): index for index, column in enumerate(columns)}
    listed = ", ".join(quoted(column.name) for column in columns)
    rows = database.query(f"SELECT {listed} FROM {quoted(name)} LIMIT {MOST_ROWS_READ}")  # noqa: S608
    key = tuple(row[0] for row in sorted(described, key=lambda row: row[5]) if row[5])
    unique = [key] if key else []
    for _, index, is_unique, origin, is_partial in database.describe("index_list", name):
        if not is_unique or is_partial or origin == "pk":
            continue
        indexed = [row[2] for row in database.describe("index_info", index)]
        if all(column is not None and column.lower() in indices for column in indexed):
            unique.append(tuple(indices[column.lower()] for column in indexed))
    return Declared(name, columns, tuple(rows), _references(database, name, indices), tuple(unique))


def _references(database: Database, name: str, indices: dict[str, int]) -> tuple[Reference, ...]:
    """Return the references that the schema declares to existing tables."""
    rows_by_reference: dict[int, list[Row]] = {}
    for row in database.describe("foreign_key_list", name):
        rows_by_reference.setdefault(row[0], []).append(row)
    references = []
    for rows in rows_by_reference.values():
        rows.sort(key=lambda row: row[1])
        described = database.describe("table_info", rows[0][2])
        key = [row[1] for row in sorted(described, key=lambda row: row[5]) if row[5]]
        columns = [row[4] for row in rows] if rows[0][4] is not None else key
        if described and len(columns) == len(rows):
            columns_here = tuple(indices[row[3].lower()] for row in rows)
            references.append(Reference(columns_here, rows[0][2], tuple(columns)))
    return tuple(references)


MADE_UP_ROWS = 6

KEY_NAME: Final = (
    r"(?:^|_)(?:u?uid|guid|key|code|no|num|number|isbn|sku|ean|upc|e?_?mail|phone|tel|user_?name"
    r"|login|handle|slug|url|title|ssn|vin|plate|serial|iban|symbol|ticker)$|id$|name$"
)
"""Matches the lower-case names of columns that contain keys or names."""


def made_up(columns: Sequence[Column]) -> tuple[Row, ...]:
    """Make up rows for an empty table."""
    return tuple(tuple(first_value(column, n) for column in columns) for n in range(MADE_UP_ROWS))


_GUESSES: Final[tuple[tuple[str, str, Callable[[str, int], Any]], ...]] = (
    # What is in the name, what is in the type, and a value of that kind.
    (r"^(is|has)_|_?flag$", "INT|NUM|^$", lambda _, n: n % 2),
    ("", "BOOL", lambda _, n: n % 2),
    ("year", "INT", lambda _, n: 2018 + n),
    ("", "INT", lambda _, n: n + 1),
    ("", "REAL|FLOA|DOUB|NUM|DEC", lambda _, n: 10.5 * (n + 1)),
    (r"", "DATETIME|TIMESTAMP", lambda _, n: f"2024-0{n % 3 + 1}-1{n} 1{n}:30:00"),
    (r"_at$|timestamp", "", lambda _, n: f"2024-0{n % 3 + 1}-1{n} 1{n}:30:00"),
    (r"", "DATE", lambda _, n: f"2024-0{n % 3 + 1}-1{n}"),
    (
        r"(^|_)date|date$|_on$|birthday|^dob$|^(born|joined|hired|since)$",
        "",
        lambda _, n: f"2024-0{n % 3 + 1}-1{n}",
    ),
    (r"", "TIME", lambda _, n: f"1{n}:30:00"),
    ("mail", "", lambda _, n: f"{'abcdef'[n % 6]}@example.com"),
    (KEY_NAME, "", lambda name, n: f"{name} {n}"),
    ("", "", lambda name, n: f"{name} {n % 3}"),
)


def first_value(column: Column, number: int) -> Any:
    """Return a value for a column, from its name and type only; `number`: below 10."""
    name = column.name.lower()
    return next(
        guess(column.name, number)
        for name_pattern, declared, guess in _GUESSES
        if re.search(name_pattern, name) and re.search(declared, column.declared)
    )
