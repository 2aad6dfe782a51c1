"""`Table`: what is known of a database's tables: columns, rows, and what holds for all rows.

The schema says a part of it: keys, references, what must not be NULL. The rows say the rest: a
column of names in which none comes twice, a loan that never ends before it begins, a city that is
always in the same country, a number that is always another table's key. A query may rightly rely
on that, so it is kept in variants.
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
"""How often a value must come again with the same other value to determine it."""
LEAST_DISTINCT = 5
"""Values without a repetition that make a key of a column whose name alone does not."""
LEAST_PAIRS = 2
"""Pairs of moments in an order that make it a rule."""

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
    read: Declared,
    declared: Sequence[Reference],
    others: Sequence[Declared],
    joined: Collection[frozenset[str]],
) -> Iterator[Reference]:
    """References that no schema declares: a column named for a key or joined with it.

    All its values are among the key's.
    """
    taken = {place for reference in declared for place in reference.places}
    for place, column in enumerate(read.columns):
        if place in taken or read.key == (place,) or _meant(column.name) == _stem(read.name):
            continue
        for other in others:
            target = None
            if other.name != read.name:
                target = _named_key(column.name, other)
                if target is None and any(row[place] is not None for row in read.rows):
                    target = _key_of_the_named(column.name, other)
            if target is None and not _is_key(read, place):
                target = _joined_key(column.name, other, joined)
            if target is None:
                continue
            there = {row[target] for row in other.rows}
            if all(row[place] in there for row in read.rows if row[place] is not None):
                yield Reference((place,), other.name, (other.columns[target].name,))
                break


def _named_key(name: str, other: Declared) -> int | None:
    """The place of a table's key if `name` says that it means it: `book_id` for books."""
    name = name.lower()
    if not name.endswith("id") or name == "id":
        return None
    is_said = _meant(name) == _stem(other.name)
    for wanted in (name, "id"):
        place = other.place(wanted)
        if place is None:
            continue
        is_declared = other.key == (place,)
        if _is_key(other, place) and (is_said or (is_declared and wanted == name)):
            return place
    return None


def _key_of_the_named(name: str, other: Declared) -> int | None:
    """The place of a table's declared key if `name` is the table's: `dept` for the code of dept."""
    is_named = name.lower() in {other.name.lower(), _stem(other.name)}
    return other.key[0] if is_named and len(other.key) == 1 else None


def _joined_key(name: str, other: Declared, joined: Collection[frozenset[str]]) -> int | None:
    """The place of a table's key if a query joins it with a column called `name`."""
    return next(
        (
            place
            for place, column in enumerate(other.columns)
            if frozenset((name.lower(), column.name.lower())) in joined and _is_key(other, place)
        ),
        None,
    )


def _is_key(table: Declared, place: int) -> bool:
    """Whether a column is a table's key: declared, or the first one, without a repetition."""
    values = [row[place] for row in table.rows]
    return table.key == (place,) or (
        not table.key and place == 0 and len(values) == len(set(values))
    )


def _meant(name: str) -> str:
    """What a column of keys is named for: `book` of `book_id`."""
    return name.lower().removesuffix("id").rstrip("_")


def _stem(table: str) -> str:
    """The name of one of a table's rows: `category` for categories."""
    name = table.lower()
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name.removesuffix("s")


def unique(read: Declared, rows: Sequence[Row], referring: set[int]) -> tuple[Places, ...]:
    """Columns whose values together never come twice, as declared or by the looks of them."""
    found = list(read.unique)
    for place, column in enumerate(read.columns):
        if place not in referring and (place,) not in found and _is_like_a_key(read, column, place):
            found.append((place,))
    first, last = (
        next((p for p, c in enumerate(read.columns) if pattern.fullmatch(c.name.lower())), None)
        for pattern in (_FIRST_NAME, _LAST_NAME)
    )
    if first is not None and last is not None:
        found += _if_distinct(read.rows, (first, last))
    if not any(len(places) == 1 for places in found):
        if len(referring) > 1:
            found += _if_distinct(read.rows, tuple(sorted(referring)))
        found += _if_distinct(rows, tuple(range(len(read.columns))))
    return tuple(dict.fromkeys(found))


def _is_like_a_key(read: Declared, column: Column, place: int) -> bool:
    """Whether no value comes twice, and none is to."""
    name = column.name.lower()
    if not re.search(KEY_NAME, name) or _FIRST_NAME.fullmatch(name) or _LAST_NAME.fullmatch(name):
        return False
    stem = _stem(read.name)
    own = name.removeprefix(stem).lstrip("_") if name.startswith(stem) else name
    values = [folded(row[place]) for row in read.rows if row[place] is not None]
    if len(values) != len(set(values)):
        return False
    if len(values) >= LEAST_DISTINCT:
        return True
    return _OWN_NAME.fullmatch(own) is not None


def _if_distinct(rows: Sequence[Row], places: Places) -> list[Places]:
    values = [tuple(folded(row[place]) for place in places) for row in rows]
    return [places] if len(values) == len(set(values)) > 1 else []


def determined(
    read: Declared, places: Sequence[int], referring: set[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of columns: a value of the first always comes with the same value of the second."""
    for first, second in permutations(places, 2):
        names = read.columns[first].name, read.columns[second].name
        if second in referring or _is_larger(*names):
            continue
        pairs = {(row[first], row[second]) for row in read.rows if row[first] is not None}
        firsts = {one for one, _ in pairs}
        repeats = sum(row[first] is not None for row in read.rows) - len(firsts)
        says_something = len({other for _, other in pairs}) > 1 and repeats >= LEAST_REPEATS
        if says_something and len(pairs) == len(firsts):
            yield first, second


def _is_larger(first: str, second: str) -> bool:
    """Whether a column's values hold many of another's by their nature: a country, cities."""
    one, other = (
        next((size for size, words in enumerate(_PLACES) if re.search(words, name.lower())), -1)
        for name in (first, second)
    )
    return one > other >= 0


def ordered(rows: Sequence[Row], columns: int) -> Iterator[tuple[int, int]]:
    """Pairs of columns of moments, where the first is never after the second."""
    formats = {
        place: format_of([row[place] for row in rows if row[place] is not None])
        for place in range(columns)
    }
    # Those that are written with the largest unit first are ordered as texts.
    dated = [place for place, way in formats.items() if way and way[:2] in {"%Y", "%H"}]
    for one, other in combinations(dated, 2):
        pairs = [(row[one], row[other]) for row in rows if None not in (row[one], row[other])]
        if formats[one] != formats[other] or len(pairs) < LEAST_PAIRS:
            continue
        if all(first <= second for first, second in pairs):
            yield one, other
        elif all(first >= second for first, second in pairs):
            yield other, one


def folded(value: Any) -> Any:
    """A value as it counts for being another: names that differ in case alone are the same."""
    return value.casefold() if isinstance(value, str) else value


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
