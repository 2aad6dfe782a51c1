"""SQLite in memory, made safe for statements that somebody else wrote.

There is no clock but the one that is set, no file to reach (no ATTACH, no extension, no virtual
table), nothing to switch (PRAGMA does nothing), nothing to change while a query runs, and a limit
on steps, rows and sizes. Steps are counted in instructions of SQLite's machine, not in seconds, so
that a query ends the same way on every machine. What native code does within one instruction can
still be long: run this in a process that can be killed.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, final

from palestra.resources_servers.text_to_sql.clock import set_clock

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

    `now`: what its queries take for the present (UTC). Raises Refused when the script cannot be
    run.
    """

    def __init__(self, script: str, now: datetime) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
        self._clock = set_clock(self._connection, now)
        for limit, value in _LIMITS:
            self._connection.setlimit(limit, value)
        # The same for every query, so that a result can be compared.
        self._connection.create_function("random", 0, lambda: 0, deterministic=True)
        self._reading = False
        self._steps = 0
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._progress, _STEPS_AT_ONCE)
        try:
            with _refusing():
                self._connection.executescript(script)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the database; again is the same as once."""
        self._connection.close()
        self._clock.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def query(self, statement: str, *, backwards: bool = False) -> list[Row]:
        """The rows of one query, which can change nothing. Raises Refused.

        `backwards`: rows that no ORDER BY tells apart come in the opposite order.
        """
        if backwards:
            self._pragma("reverse_unordered_selects = ON")
        self._reading = True
        self._steps = 0
        try:
            with _refusing():
                rows = self._connection.execute(statement).fetchmany(MOST_ROWS + 1)
        finally:
            self._reading = False
            if backwards:
                self._pragma("reverse_unordered_selects = OFF")
        if len(rows) > MOST_ROWS:
            raise Refused(f"more than {MOST_ROWS} rows")
        return rows

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement of our own; how many rows it changed. Raises Refused."""
        self._steps = 0
        with _refusing():
            return self._connection.execute(statement, values).rowcount

    def describe(self, pragma: str, name: str) -> list[Row]:
        """What a pragma says of a table or an index, such as its columns. Raises Refused."""
        return self._pragma(f"{pragma}({quoted(name)})")

    def _pragma(self, pragma: str) -> list[Row]:
        self._connection.set_authorizer(None)
        try:
            with _refusing():
                return self._connection.execute(f"PRAGMA {pragma}").fetchall()
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
