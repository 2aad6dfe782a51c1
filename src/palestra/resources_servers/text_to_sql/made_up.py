"""Rows for a table that has none: nothing is known of them but their columns' names and types."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from palestra.resources_servers.text_to_sql.database import Row
from palestra.resources_servers.text_to_sql.declared import Column

MADE_UP_ROWS = 6

KEY_NAME: Final = (
    r"(?:^|_)(?:u?uid|guid|key|code|no|num|number|isbn|sku|ean|upc|e?_?mail|phone|tel|user_?name"
    r"|login|handle|slug|url|title|ssn|vin|plate|serial|iban|symbol|ticker)$|id$|name$"
)
"""How columns of keys and names are called, in lower case."""


def made_up(columns: Sequence[Column]) -> tuple[Row, ...]:
    """Rows for a table that has none."""
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
    """A value for a column of which nothing but its name and type is known; number: below 10."""
    name = column.name.lower()
    return next(
        guess(column.name, number)
        for named, declared, guess in _GUESSES
        if re.search(named, name) and re.search(declared, column.declared)
    )
