"""Locks on files, so that one process works at a time. A lock ends with the process that holds it.

This module uses the standard library only and supports Python 3.8, because a cluster's supervisor
includes a copy of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final

from palestra.system.files import on_failure

LOOK_EVERY_S: Final = 0.05
REOPENED: Final = 100
"""How often a file is opened again because it was renamed between opening and locking it."""


def lock(file: IO[bytes] | int, *, shared: bool = False, wait_s: float = 0.0) -> bool:
    """Lock an open file, or a folder's descriptor, until it is closed.

    `shared`: other processes may hold a shared lock at the same time. Returns False where the file
    system has no locks: some clusters mount file systems without locks, and NFS has none for
    folders. Raises BlockingIOError when another process still holds the lock after `wait_s`
    seconds.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOOK_EVERY_S)
        except OSError:
            return False
        else:
            return True


def open_locked(path: Path, *, mode: int = 0o666, wait_s: float = 0.0) -> BinaryIO:
    """Open `path` for reading and appending, and lock it until it is closed.

    A missing file is created with `mode`. Raises BlockingIOError when another process still holds
    the lock after `wait_s` seconds, and another OSError when the file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    for _ in range(REOPENED):
        file = os.fdopen(os.open(path, flags, mode), "ab+")
        with on_failure(file.close):
            lock(file, wait_s=wait_s)
            # Who had it may have renamed it between our opening and our lock: what is locked then
            # is their finished file, which must not be written to.
            if is_file_at(file, path):
                return file
        file.close()
    raise BlockingIOError(errno.EAGAIN, "it is renamed each time it is opened", str(path))


@contextlib.contextmanager
def folder_locked(folder: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock of `folder` while the body runs. Raises the same errors as `lock`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor, wait_s=wait_s)
        yield
    finally:
        os.close(descriptor)


def is_file_at(file: IO[bytes], path: Path) -> bool:
    """Whether the open file is still the file at `path`, and was not renamed, removed or replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False
