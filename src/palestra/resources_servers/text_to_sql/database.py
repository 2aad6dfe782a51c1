"""An SQLite database in memory that is safe for statements from others.

The clock is fixed. No file can be reached (no ATTACH, no extension, no virtual table). PRAGMA has
no effect. A query cannot change anything. Steps, rows and sizes are limited. Steps are instructions
of SQLite's virtual machine, not seconds, so a query ends the same way on every machine. A single
instruction may still run for long in native code: use this module in a process that can be killed.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, final

MOST_STEPS: Final = 20_000_000
MOST_ROWS: Final = 20_000
LONGEST_VALUE: Final = 1_000_000
"""The most bytes of one text or blob, and of one statement."""

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

_PLACE_OF_THE_TIME: Final = {
    "date": 0,
    "time": 0,
    "datetime": 0,
    "julianday": 0,
    "unixepoch": 0,
    "strftime": 1,
}
"""SQLite's time functions, with the position of the time argument. Without this argument they use
the present time."""

_KEYWORDS: Final = {
    "current_date": "date",
    "current_time": "time",
    "current_timestamp": "datetime",
}

_Value = str | int | float | bytes | None


class Refused(Exception):
    """Raised when a statement fails or exceeds a limit; the message names the cause."""


@final
class Database:
    """A database in memory, created by a script. Use as a context manager.

    `now`: the present time (UTC) for all queries. Raises Refused: the script cannot be run.
    """

    def __init__(self, script: str, now: datetime) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
        self._clock = _set_clock(self._connection, now)
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
        """Close the database; closing it twice does no harm."""
        self._connection.close()
        self._clock.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _authorize(self, action: int, name: str | None, second_name: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_PRAGMA:
            return sqlite3.SQLITE_IGNORE
        function = (second_name or name or "").lower() if action == sqlite3.SQLITE_FUNCTION else ""
        if action in _NEVER or function in _NO_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        if self._reading and action not in _OF_A_QUERY:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _progress(self) -> int:
        self._steps += _STEPS_AT_ONCE
        return int(self._steps > MOST_STEPS)

    def query(self, statement: str, *, backwards: bool = False) -> list[Row]:
        """Return the rows of a query, which cannot change anything. Raises Refused: it fails or
        exceeds a limit.

        `backwards`: return rows that ORDER BY does not order in the opposite order.
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
        """Run a statement of our own; return the number of changed rows. Raises Refused: it fails."""
        self._steps = 0
        with _refusing():
            return self._connection.execute(statement, values).rowcount

    def describe(self, pragma: str, name: str) -> list[Row]:
        """Return the result of a pragma for a table or an index, such as its columns. Raises
        Refused: it fails.
        """
        return self._pragma(f"{pragma}({quoted(name)})")

    def _pragma(self, pragma: str) -> list[Row]:
        self._connection.set_authorizer(None)
        try:
            with _refusing():
                return self._connection.execute(f"PRAGMA {pragma}").fetchall()
        finally:
            self._connection.set_authorizer(self._authorize)


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise Refused(str(error)[:300]) from error


def _set_clock(connection: sqlite3.Connection, now: datetime) -> sqlite3.Connection:
    """Make `now` (UTC) the present time of a connection. Return a helper connection to close with
    it.

    All queries of a comparison get the same time. Otherwise two queries, run one after another,
    would see different times, and a verdict about dates could not be repeated. The time has whole
    seconds, so that CURRENT_TIMESTAMP equals 'now'.
    """
    time_text = now.strftime("%Y-%m-%d %H:%M:%S")
    plain = sqlite3.connect(":memory:", isolation_level=None)
    for name, argument_index in _PLACE_OF_THE_TIME.items():
        function = _clock_function(plain, name, argument_index, time_text)
        connection.create_function(name, -1, function, deterministic=True)
    for keyword, name in _KEYWORDS.items():
        function = _clock_function(plain, name, 0, time_text)
        connection.create_function(keyword, 0, function, deterministic=True)
    return plain


def _clock_function(
    plain: sqlite3.Connection, name: str, argument_index: int, time_text: str
) -> Callable[..., _Value]:
    def function(*arguments: _Value) -> _Value:
        args = [time_text if _is_now(arg) else arg for arg in arguments]
        if len(args) == argument_index:
            args.append(time_text)
        placeholders = ", ".join("?" * len(args))
        value: _Value = plain.execute(f"SELECT {name}({placeholders})", args).fetchone()[0]
        return value

    return function


def _is_now(arg: _Value) -> bool:
    return isinstance(arg, str) and arg.lower() == "now"
