"""Write JSON files and JSON lines so that a reader never sees half of one; read the end of a log.

Uses only the standard library of Python 3.8 or later, because the supervisor includes this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from palestra.system import lock, write_whole

TAIL_BYTES = 4096
TAIL_LINES = 20
TURN_S = 30.0
"""How long `append_line` waits for the lock. It then appends without one, which is usually safe
too."""


def write_object(path: Path, value: object, *, mode: int = 0o666) -> None:
    """Write `value` as indented JSON. The file is replaced as a whole: see `write_whole`."""
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    write_whole(path, text.encode(), mode=mode)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None when the file is missing or contains no object."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Append one record as a complete line of JSON, and sync it to disk.

    If a killed process left an incomplete last line, a line break is added first, so that this
    record is on its own line. Several machines may append: a lock orders them where the file system
    has locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    with path.open("ab+", buffering=0) as file:
        with contextlib.suppress(BlockingIOError):
            lock(file, wait_s=TURN_S)
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
        # One write of everything: appends of others come before or after it.
        os.write(file.fileno(), line)
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete records of a file of JSON lines. Incomplete and invalid lines are left
    out.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def tail(log: Path) -> str:
    """Return the last lines of a log, for a message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])


_BARE_EXIT: Final = re.compile(r"exited with \d+|was ended by ")
_EXITED_WELL: Final = re.compile(r"exited with 0\b")
_ERROR: Final = re.compile(r"error: ", re.IGNORECASE)
_OF_SLURM: Final = ("srun: ", "slurmstepd")
"""What Slurm adds to the log of each step that fails: it repeats the exit, and names no cause."""
MOST_CHARACTERS: Final = 400


def reason_of(result: Mapping[str, Any]) -> str:
    """Return why the job ended. If the result only names an exit, add the last error of the log.

    Empty when there is no reason, for example after success.
    """
    reason = str(result.get("reason") or "")
    last_word = _last_word(
        str(result.get("log") or ""), errors_only=bool(_EXITED_WELL.search(reason))
    )
    return f"{reason}: {last_word}" if last_word and _BARE_EXIT.search(reason) else reason


def _last_word(log: str, *, errors_only: bool) -> str:
    """Return the last error line of a log; without an error line, the last line.

    Error lines come first because hints may follow them. Lines of Slurm count only where there are
    no others. `errors_only`: never return a line that is not an error, because the last line of a
    program that exited with 0 is not a cause.
    """
    all_lines = [line.strip() for line in log.splitlines() if line.strip()]
    lines = [line for line in all_lines if not line.startswith(_OF_SLURM)] or all_lines
    errors = [line[match.end() :] for line in lines if (match := _ERROR.match(line))]
    fallback = [] if errors_only else lines
    return (errors or fallback or [""])[-1][:MOST_CHARACTERS]
