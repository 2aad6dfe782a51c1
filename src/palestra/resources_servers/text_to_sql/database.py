"""SQLite in memory, made safe for statements that somebody else wrote.

There is no clock but the one that is set, no file to reach (no ATTACH, no extension, no virtual
table), nothing to switch (PRAGMA does nothing), nothing to change while a query runs, and a limit
on steps, rows and sizes. Steps are counted in instructions of SQLite's machine, not in seconds, so
that a query ends the same way on every machine. What native code does within one instruction can
still be long: run this in a process that can be killed.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
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

_PLACE_OF_THE_TIME: Final = {
    "date": 0,
    "time": 0,
    "datetime": 0,
    "julianday": 0,
    "unixepoch": 0,
    "strftime": 1,
}
"""SQLite's functions of a time, which means now where it is left out."""

_KEYWORDS: Final = {
    "current_date": "date",
    "current_time": "time",
    "current_timestamp": "datetime",
}

_Value = str | int | float | bytes | None


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


def _set_clock(connection: sqlite3.Connection, now: datetime) -> sqlite3.Connection:
    """Make `now` (UTC) the time of a connection; what is returned is to be closed with it.

    One instant for all queries of a comparison: two queries that are run one after the other would
    else see two, and a verdict on dates could not be repeated. In whole seconds, so that
    CURRENT_TIMESTAMP is no other instant than 'now'.
    """
    told = now.strftime("%Y-%m-%d %H:%M:%S")
    plain = sqlite3.connect(":memory:", isolation_level=None)
    for name, place in _PLACE_OF_THE_TIME.items():
        function = _clock_function(plain, name, place, told)
        connection.create_function(name, -1, function, deterministic=True)
    for keyword, name in _KEYWORDS.items():
        function = _clock_function(plain, name, 0, told)
        connection.create_function(keyword, 0, function, deterministic=True)
    return plain


def _clock_function(
    plain: sqlite3.Connection, name: str, place: int, told: str
) -> Callable[..., _Value]:
    def function(*given: _Value) -> _Value:
        args = [told if _is_now(arg) else arg for arg in given]
        if len(args) == place:
            args.append(told)
        places = ", ".join("?" * len(args))
        found: _Value = plain.execute(f"SELECT {name}({places})", args).fetchone()[0]
        return found

    return function


def _is_now(arg: _Value) -> bool:
    return isinstance(arg, str) and arg.lower() == "now"
