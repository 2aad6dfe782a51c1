"""What a schema declares of a table, and the rows that the table has."""

from dataclasses import dataclass

from palestra.resources_servers.text_to_sql.database import Database, Row, quoted

MOST_ROWS_READ = 5000
"""Rows of a table that show what holds in it."""

Places = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column as the schema declares it."""

    name: str
    declared: str
    is_required: bool
    is_key: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns of a table that name a row of another by columns of that one."""

    places: Places
    parent: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """A table as it was read, before it is known what holds in it."""

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
    """Read a table. Raises Refused."""
    described = database.describe("table_info", name)
    columns = tuple(
        Column(column, str(declared).upper(), bool(required), bool(key))
        for _, column, declared, required, _, key in described
    )
    places = {column.name.lower(): place for place, column in enumerate(columns)}
    listed = ", ".join(quoted(column.name) for column in columns)
    rows = database.query(f"SELECT {listed} FROM {quoted(name)} LIMIT {MOST_ROWS_READ}")  # noqa: S608
    key = tuple(row[0] for row in sorted(described, key=lambda row: row[5]) if row[5])
    unique = [key] if key else []
    for _, index, is_unique, origin, is_partial in database.describe("index_list", name):
        if not is_unique or is_partial or origin == "pk":
            continue
        indexed = [row[2] for row in database.describe("index_info", index)]
        if all(column is not None and column.lower() in places for column in indexed):
            unique.append(tuple(places[column.lower()] for column in indexed))
    return Declared(name, columns, tuple(rows), _references(database, name, places), tuple(unique))


def _references(database: Database, name: str, places: dict[str, int]) -> tuple[Reference, ...]:
    """The references that the schema declares, to tables that there are."""
    found: dict[int, list[Row]] = {}
    for row in database.describe("foreign_key_list", name):
        found.setdefault(row[0], []).append(row)
    made = []
    for rows in found.values():
        rows.sort(key=lambda row: row[1])
        described = database.describe("table_info", rows[0][2])
        key = [row[1] for row in sorted(described, key=lambda row: row[5]) if row[5]]
        columns = [row[4] for row in rows] if rows[0][4] is not None else key
        if described and len(columns) == len(rows):
            own = tuple(places[row[3].lower()] for row in rows)
            made.append(Reference(own, rows[0][2], tuple(columns)))
    return tuple(made)
