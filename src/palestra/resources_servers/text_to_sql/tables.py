"""`Table`: the columns and rows of a table, and the rules that hold for all its rows.

Some rules come from the schema: keys, references, columns that must not be NULL. Others are
inferred from the rows: no name occurs twice, a loan never ends before it begins, a city is always
in the same country, a number is always the key of another table. A query may rely on such rules, so
variants keep them.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, permutations
from random import Random
from typing import Any

from palestra.resources_servers.text_to_sql.database import Database, Row
from palestra.resources_servers.text_to_sql.declared import (
    KEY_NAME,
    Column,
    Declared,
    Places,
    Reference,
    made_up,
    read_table,
)
from palestra.resources_servers.text_to_sql.values import format_of

LEAST_REPEATS = 3
"""How many repeated values a column needs to show that it determines another column."""
LEAST_DISTINCT = 5
"""How many distinct values show that a column is unique when its name alone does not."""
LEAST_PAIRS = 2
"""How many pairs of moments in order are needed to infer a rule."""

_OWN_NAME = re.compile(
    r"id|no|nr|num|number|code|key|name|title|email|isbn|sku|ean|upc|uuid|guid|slug|ssn|vin|iban|user_?name|login|handle"
)
_PLACES = (
    r"street|address|zip|postal",
    r"city|town",
    r"state|province|region",
    "country",
    "continent",
)
_FIRST_NAME = re.compile(r"first_?name|fname|given_?name|forename")
_LAST_NAME = re.compile(r"last_?name|lname|sur_?name|family_?name")


def undeclared(
    declared_table: Declared,
    declared: Sequence[Reference],
    others: Sequence[Declared],
    joined: Collection[frozenset[str]],
) -> Iterator[Reference]:
    """Yield references that the schema does not declare.

    Such a column is named after another table's key or joined with it, and all its values are among
    the key's values.
    """
    referring_columns = {
        column_index for reference in declared for column_index in reference.places
    }
    for column_index, column in enumerate(declared_table.columns):
        if (
            column_index in referring_columns
            or declared_table.key == (column_index,)
            or _named_stem(column.name) == _stem(declared_table.name)
        ):
            continue
        for other_table in others:
            target = None
            if other_table.name != declared_table.name:
                target = _named_key(column.name, other_table)
                if target is None and any(
                    row[column_index] is not None for row in declared_table.rows
                ):
                    target = _key_of_the_named(column.name, other_table)
            if target is None and not _is_key(declared_table, column_index):
                target = _joined_key(column.name, other_table, joined)
            if target is None:
                continue
            target_values = {row[target] for row in other_table.rows}
            if all(
                row[column_index] in target_values
                for row in declared_table.rows
                if row[column_index] is not None
            ):
                yield Reference(
                    (column_index,), other_table.name, (other_table.columns[target].name,)
                )
                break


def _named_key(name: str, other_table: Declared) -> int | None:
    """Return the position of a table's key if `name` refers to it, like `book_id` for books; else
    None.
    """
    name = name.lower()
    if not name.endswith("id") or name == "id":
        return None
    is_said = _named_stem(name) == _stem(other_table.name)
    for candidate in (name, "id"):
        column_index = other_table.place(candidate)
        if column_index is None:
            continue
        is_declared = other_table.key == (column_index,)
        if _is_key(other_table, column_index) and (is_said or (is_declared and candidate == name)):
            return column_index
    return None


def _key_of_the_named(name: str, other_table: Declared) -> int | None:
    """Return the position of a table's declared key if `name` is the table's name, like `dept` for
    the code of dept; else None.
    """
    is_named = name.lower() in {other_table.name.lower(), _stem(other_table.name)}
    return other_table.key[0] if is_named and len(other_table.key) == 1 else None


def _joined_key(name: str, other_table: Declared, joined: Collection[frozenset[str]]) -> int | None:
    """Return the position of a table's key if a query joins it with a column `name`; else None."""
    return next(
        (
            column_index
            for column_index, column in enumerate(other_table.columns)
            if frozenset((name.lower(), column.name.lower())) in joined
            and _is_key(other_table, column_index)
        ),
        None,
    )


def _is_key(table: Declared, column_index: int) -> bool:
    """Whether a column is the table's key: declared, or else the first column if its values are
    distinct.
    """
    values = [row[column_index] for row in table.rows]
    return table.key == (column_index,) or (
        not table.key and column_index == 0 and len(values) == len(set(values))
    )


def _named_stem(name: str) -> str:
    """Return the name that a key column contains: `book` for `book_id`."""
    return name.lower().removesuffix("id").rstrip("_")


def _stem(table: str) -> str:
    """Return the singular of a table's name: `category` for categories."""
    name = table.lower()
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name.removesuffix("s")


def unique(
    declared_table: Declared, rows: Sequence[Row], referring: set[int]
) -> tuple[Places, ...]:
    """Return the column groups whose values together are unique, as declared or as the rows
    suggest.
    """
    keys = list(declared_table.unique)
    for column_index, column in enumerate(declared_table.columns):
        if (
            column_index not in referring
            and (column_index,) not in keys
            and _is_like_a_key(declared_table, column, column_index)
        ):
            keys.append((column_index,))
    first, last = (
        next(
            (p for p, c in enumerate(declared_table.columns) if pattern.fullmatch(c.name.lower())),
            None,
        )
        for pattern in (_FIRST_NAME, _LAST_NAME)
    )
    if first is not None and last is not None:
        keys += _if_distinct(declared_table.rows, (first, last))
    if not any(len(column_indices) == 1 for column_indices in keys):
        if len(referring) > 1:
            keys += _if_distinct(declared_table.rows, tuple(sorted(referring)))
        keys += _if_distinct(rows, tuple(range(len(declared_table.columns))))
    return tuple(dict.fromkeys(keys))


def _is_like_a_key(declared_table: Declared, column: Column, column_index: int) -> bool:
    """Whether a column has unique values and a name or size that suggests they must be unique."""
    name = column.name.lower()
    if not re.search(KEY_NAME, name) or _FIRST_NAME.fullmatch(name) or _LAST_NAME.fullmatch(name):
        return False
    stem = _stem(declared_table.name)
    own_part = name.removeprefix(stem).lstrip("_") if name.startswith(stem) else name
    values = [
        folded(row[column_index]) for row in declared_table.rows if row[column_index] is not None
    ]
    if len(values) != len(set(values)):
        return False
    if len(values) >= LEAST_DISTINCT:
        return True
    return _OWN_NAME.fullmatch(own_part) is not None


def _if_distinct(rows: Sequence[Row], column_indices: Places) -> list[Places]:
    values = [tuple(folded(row[column_index]) for column_index in column_indices) for row in rows]
    return [column_indices] if len(values) == len(set(values)) > 1 else []


def determined(
    declared_table: Declared, column_indices: Sequence[int], referring: set[int]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of columns in which each value of the first has always the same value of the
    second.
    """
    for first, second in permutations(column_indices, 2):
        names = declared_table.columns[first].name, declared_table.columns[second].name
        if second in referring or _is_larger(*names):
            continue
        pairs = {(row[first], row[second]) for row in declared_table.rows if row[first] is not None}
        firsts = {first_value for first_value, _ in pairs}
        repeats = sum(row[first] is not None for row in declared_table.rows) - len(firsts)
        says_something = (
            len({second_value for _, second_value in pairs}) > 1 and repeats >= LEAST_REPEATS
        )
        if says_something and len(pairs) == len(firsts):
            yield first, second


def _is_larger(first: str, second: str) -> bool:
    """Whether the first column names a larger kind of place than the second: a country and cities."""
    first_size, second_size = (
        next((size for size, words in enumerate(_PLACES) if re.search(words, name.lower())), -1)
        for name in (first, second)
    )
    return first_size > second_size >= 0


def ordered(rows: Sequence[Row], columns: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of date or time columns in which the first is never after the second."""
    formats = {
        column_index: format_of(
            [row[column_index] for row in rows if row[column_index] is not None]
        )
        for column_index in range(columns)
    }
    # Those that are written with the largest unit first are ordered as texts.
    dated = [
        column_index for column_index, way in formats.items() if way and way[:2] in {"%Y", "%H"}
    ]
    for earlier, later in combinations(dated, 2):
        pairs = [
            (row[earlier], row[later]) for row in rows if None not in (row[earlier], row[later])
        ]
        if formats[earlier] != formats[later] or len(pairs) < LEAST_PAIRS:
            continue
        if all(first <= second for first, second in pairs):
            yield earlier, later
        elif all(first >= second for first, second in pairs):
            yield later, earlier


def folded(value: Any) -> Any:
    """Return a value in the form used to find duplicates: letter case does not count."""
    return value.casefold() if isinstance(value, str) else value


MOST_BASE_ROWS = 40
"""The most rows of a table from which the rows of a variant are made."""
MOST_COLUMNS_COMPARED = 30


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with the rules that hold for its rows."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """The table's own rows, or made-up rows for an empty table."""
    is_made_up: bool
    references: tuple[Reference, ...]
    unique: tuple[Places, ...]
    """Column groups whose values together are unique."""
    determined: tuple[tuple[int, int], ...]
    """Pairs of columns: each value of the first always has the same value of the second."""
    ordered: tuple[tuple[int, int], ...]
    """Pairs of date or time columns: the first is never after the second."""

    @property
    def base(self) -> list[Row]:
        """The rows from which the rows of a variant are made, in the table's order."""
        if len(self.rows) <= MOST_BASE_ROWS:
            return list(self.rows)
        return [
            self.rows[i] for i in sorted(Random(0).sample(range(len(self.rows)), MOST_BASE_ROWS))
        ]

    def held(self, column_index: int) -> list[Any]:
        """Return the values of a column that are not NULL."""
        return [row[column_index] for row in self.rows if row[column_index] is not None]

    def referring(self) -> set[int]:
        """Return the positions of the columns that are part of a reference."""
        return {column_index for reference in self.references for column_index in reference.places}


def tables_of(database: Database, joined: Collection[frozenset[str]] = ()) -> list[Table]:
    """Return the tables, referenced ones first. Raises Refused: a table cannot be read.

    `joined`: pairs of lower-case column names that the reference query requires to be equal.
    """
    rows = database.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    names = [name for (name,) in rows if not name.startswith("sqlite_")]
    declared_tables = {name: read_table(database, name) for name in names}
    tables = {
        name: _known_table(declared_table, list(declared_tables.values()), joined)
        for name, declared_table in declared_tables.items()
    }
    parents = {
        name: {reference.parent for reference in table.references} - {name}
        for name, table in tables.items()
    }
    try:
        ordered = list(TopologicalSorter(parents).static_order())
    except CycleError:
        ordered = list(tables)
    return [tables[name] for name in ordered if name in tables]


def _known_table(
    declared_table: Declared, others: Sequence[Declared], joined: Collection[frozenset[str]]
) -> Table:
    by_name = {other_table.name.lower(): other_table for other_table in others}
    declared = tuple(
        Reference(reference.places, parent.name, reference.columns)
        for reference in declared_table.references
        if (parent := by_name.get(reference.parent.lower()))
        and all(parent.place(column) is not None for column in reference.columns)
    )
    references = (*declared, *undeclared(declared_table, declared, others, joined))
    referring = {column_index for reference in references for column_index in reference.places}
    rows = declared_table.rows or made_up(declared_table.columns)
    unique_keys = unique(declared_table, rows, referring)
    single = {column_indices[0] for column_indices in unique_keys if len(column_indices) == 1}
    free = [p for p in range(len(declared_table.columns)) if p not in single][
        :MOST_COLUMNS_COMPARED
    ]
    return Table(
        name=declared_table.name,
        columns=declared_table.columns,
        rows=rows,
        is_made_up=not declared_table.rows,
        references=references,
        unique=unique_keys,
        determined=tuple(determined(declared_table, free, referring)),
        ordered=tuple(ordered(declared_table.rows, len(declared_table.columns))),
    )
