"""One instant for all queries of a comparison: what means now in SQLite is told, not looked up.

Two queries that are run one after the other would else see two instants, and a verdict on dates
could not be repeated.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import Final

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

Value = str | int | float | bytes | None


def set_clock(connection: sqlite3.Connection, now: datetime) -> sqlite3.Connection:
    """Make `now` (UTC) the time of a connection; what is returned is to be closed with it.

    In whole seconds, so that CURRENT_TIMESTAMP is no other instant than 'now'.
    """
    told = now.strftime("%Y-%m-%d %H:%M:%S")
    plain = sqlite3.connect(":memory:", isolation_level=None)
    for name, place in _PLACE_OF_THE_TIME.items():
        function = _told(plain, name, place, told)
        connection.create_function(name, -1, function, deterministic=True)
    for keyword, name in _KEYWORDS.items():
        function = _told(plain, name, 0, told)
        connection.create_function(keyword, 0, function, deterministic=True)
    return plain


def _told(plain: sqlite3.Connection, name: str, place: int, told: str) -> Callable[..., Value]:
    def function(*given: Value) -> Value:
        args = [told if _is_now(arg) else arg for arg in given]
        if len(args) == place:
            args.append(told)
        places = ", ".join("?" * len(args))
        found: Value = plain.execute(f"SELECT {name}({places})", args).fetchone()[0]
        return found

    return function


def _is_now(arg: Value) -> bool:
    return isinstance(arg, str) and arg.lower() == "now"
