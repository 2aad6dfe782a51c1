"""SQLite in memory, made safe for statements that somebody else wrote.

There is no file to reach (no ATTACH, no extension, no virtual table), nothing to switch (PRAGMA
does nothing), nothing to change while a query runs, and a limit on steps, rows and sizes. Steps
are counted in instructions of SQLite's machine, not in seconds, so that a query ends the same way
on every machine. What native code does within one instruction can still be long: run this in a
process that can be killed.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

MOST_STEPS: Final = 20_000_000
MOST_ROWS: Final = 20_000
LONGEST_VALUE: Final = 1_000_000
"""Bytes of one text or blob, and of one statement."""

_STEPS_AT_ONCE: Final = 10_000
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_COLUMN, 500),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 250_000),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 10),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_NEVER: Final = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_DROP_VTABLE,
    }
)
_OF_A_QUERY: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_NO_FUNCTIONS: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
)

Row = Sequence[Any]


class Refused(Exception):
    """A statement failed, or went beyond a limit; the message says which."""


@final
class Database:
    """One database in memory, made by a script. Use as a context manager.

    `backwards`: rows that no ORDER BY tells apart come in the opposite order. Raises Refused when
    the script cannot be run.
    """

    def __init__(self, script: str, *, backwards: bool = False) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        if backwards:
            self._connection.execute("PRAGMA reverse_unordered_selects = ON")
        for limit, value in _LIMITS:
            self._connection.setlimit(limit, value)
        # The same for every query, so that a result can be compared.
        self._connection.create_function("random", 0, lambda: 0, deterministic=True)
        self._reading = False
        self._steps = 0
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._progress, _STEPS_AT_ONCE)
        with _refusing():
            self._connection.executescript(script)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _authorize(self, action: int, name: str | None, other: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_PRAGMA:
            return sqlite3.SQLITE_IGNORE
        function = (other or name or "").lower() if action == sqlite3.SQLITE_FUNCTION else ""
        if action in _NEVER or function in _NO_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        if self._reading and action not in _OF_A_QUERY:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _progress(self) -> int:
        self._steps += _STEPS_AT_ONCE
        return int(self._steps > MOST_STEPS)

    def query(self, statement: str) -> list[Row]:
        """The rows of one query, which can change nothing. Raises Refused."""
        self._reading = True
        self._steps = 0
        try:
            with _refusing():
                rows = self._connection.execute(statement).fetchmany(MOST_ROWS + 1)
        finally:
            self._reading = False
        if len(rows) > MOST_ROWS:
            raise Refused(f"more than {MOST_ROWS} rows")
        return rows

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows, leaving out those that break a constraint. Raises Refused."""
        self._steps = 0
        if not rows:
            return
        places = ", ".join("?" * len(rows[0]))
        statement = f"INSERT OR IGNORE INTO {quoted(table)} VALUES ({places})"  # noqa: S608
        with _refusing():
            self._connection.executemany(statement, rows)

    def empty(self, table: str) -> None:
        """Remove all rows. Raises Refused."""
        with _refusing():
            self._connection.execute(f"DELETE FROM {quoted(table)}")  # noqa: S608

    def describe(self, pragma: str, table: str) -> list[Row]:
        """What a pragma says of a table, such as its columns. Raises Refused."""
        self._connection.set_authorizer(None)
        try:
            with _refusing():
                return self._connection.execute(f"PRAGMA {pragma}({quoted(table)})").fetchall()
        finally:
            self._connection.set_authorizer(self._authorize)


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise Refused(str(error)[:300]) from error
