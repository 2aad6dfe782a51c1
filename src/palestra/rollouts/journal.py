"""The journal: append-only files with a single writer. A row counts only after it is completely
written.

Each row is handed to the operating system before it is acknowledged. So a killed process loses no
acknowledged row; a crash of the machine may lose the rows since the last `sync`. A kill can leave
an incomplete last line, which `repair` removes at the next start.
"""

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Self

import orjson

from palestra.errors import InputDataError, KnownCause, RunFailed
from palestra.rollouts.folder_lock import alone_in
from palestra.rollouts.results import FailedRow, Scored
from palestra.schema import RunPaths
from palestra.system import lock, write_whole


class JournalFailed(RunFailed):
    """A row could not be written. Rows acknowledged earlier are intact."""


class Journal:
    """Writes scored rows and failures. Use as a context manager."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._scored: IO[bytes] | None = None
        self._failures: IO[bytes] | None = None
        # Its own thread: verifiers that fill the shared pool must not keep rows from the disk.
        self._syncing = ThreadPoolExecutor(1, thread_name_prefix="journal")

    def __enter__(self) -> Self:
        try:
            # Nobody moves the file between its opening and the lock on it.
            with alone_in(self._paths.output.parent):
                self._scored = self._paths.output.open("ab", buffering=0)
                hold(self._scored, self._paths.output)
                self._failures = self._paths.failures.open("ab", buffering=0)
        except OSError as error:
            self._close()
            raise InputDataError(f"{error.filename}: {error.strerror}") from error
        except InputDataError:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        with contextlib.suppress(FileNotFoundError):
            if self._failures is not None and self._paths.failures.stat().st_size == 0:
                self._paths.failures.unlink()

    def _close(self) -> None:
        self._syncing.shutdown()
        for file in (self._scored, self._failures):
            if file is not None:
                file.close()

    def append(self, result: Scored | FailedRow) -> None:
        """Write one row. Raises JournalFailed: the disk refuses it."""
        file = self._scored if isinstance(result, Scored) else self._failures
        if file is None:
            raise JournalFailed("the file of rollouts is not open for writing")
        data = result.line + b"\n"
        written = 0
        try:
            while written < len(data):
                written += file.write(data[written:])
        except OSError as error:
            # One writer: what stands in front of the half-written row is all that there was.
            start = os.fstat(file.fileno()).st_size - written
            _forget(file, start)
            raise JournalFailed(
                f"{file.name}: {error.strerror} after {start} bytes",
                hint="free disk space, then run again with --resume: the written rows are intact",
            ) from error

    async def sync_aside(self) -> None:
        """Run `sync` in a thread, so that the event loop is not blocked."""
        await asyncio.get_running_loop().run_in_executor(self._syncing, self.sync)

    def sync(self) -> None:
        """Flush all written rows to the disk, so that they survive a crash of the machine."""
        for file in (self._scored, self._failures):
            if file is None or file.closed:
                continue
            try:
                os.fsync(file.fileno())
            except OSError as error:
                raise JournalFailed(f"{file.name}: {error.strerror}") from error


def check_free(path: Path) -> None:
    """Raise InputDataError: another collection is writing to `path`.

    Call it while holding the folder's lock, because it takes the file's lock for a moment.
    """
    if not path.is_file():
        return
    try:
        with path.open("ab") as file:
            hold(file, path)
    except OSError as error:
        raise InputDataError(f"{path}: {error.strerror}") from error


def hold(file: IO[bytes], path: Path) -> None:
    """Lock the file for this writer until it is closed. Raises InputDataError: another collection
    holds the lock.
    """
    try:
        lock(file)
    except BlockingIOError:
        raise being_written(path) from None


def being_written(path: Path) -> InputDataError:
    """Return the error that another collection is writing to `path`."""
    return InputDataError(
        f"{path} is being written by another collection",
        hint="wait for that one, stop it, or choose another output",
        cause=KnownCause.OUTPUT_IN_USE,
    )


def _forget(file: IO[bytes], size: int) -> None:
    """Truncate the file to `size` to remove an incomplete row, if the disk allows it."""
    try:
        file.truncate(size)
    except OSError:
        return


def repair(path: Path) -> int:
    """Remove an incomplete last line and return the number of bytes removed.

    A last line without a line break is incomplete, whatever it contains, because it was never
    acknowledged.
    """
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        whole_bytes = _end_of_last_whole_line(file, size)
        if whole_bytes < size:
            file.truncate(whole_bytes)
    return size - whole_bytes


def _end_of_last_whole_line(file: IO[bytes], size: int) -> int:
    block = 1 << 16
    end = size
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        position = file.read(end - start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, completely or not at all. Raises JournalFailed: the disk
    refuses it.
    """
    try:
        write_whole(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise JournalFailed(f"{path}: {error.strerror}") from error
