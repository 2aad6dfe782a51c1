"""Files that are whole or absent, and lines that are whole or dropped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, value: object, *, mode: int = 0o666) -> None:
    """Write `value` as JSON beside `path`, down to the disk, and put it in place.

    `mode`: who may read it, as far as the umask allows. Raises OSError; what was at `path` is there still then.
    """
    beside = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(handle, "w") as file:  # noqa: PTH123  # of a handle
            json.dump(value, file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a crash of the machine."""
    held = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object of a file; None when there is no such file, or no object in it."""
    try:
        held = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Append one record as a line of JSON, whole and down to the disk.

    A torn last line, which a kill can leave, is ended first, so that it cannot take this record
    with it. Several machines may append: they take turns where the file system has locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    with path.open("ab+", buffering=0) as file, _turn(file.fileno()):
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
        # One write of everything: appends of others come before or after it.
        os.write(file.fileno(), line)
        os.fsync(file.fileno())


@contextlib.contextmanager
def _turn(handle: int) -> Iterator[None]:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX)
    except OSError:  # a file system without locks: appends are whole there too, as a rule
        yield
        return
    try:
        yield
    finally:
        fcntl.lockf(handle, fcntl.LOCK_UN)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole records of a file of lines; torn ones, and lines that are none, are left out."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            with contextlib.suppress(ValueError):
                held = json.loads(line)
                if isinstance(held, dict):
                    yield held
