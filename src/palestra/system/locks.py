"""One process at a time: locks on files, which end with the process that has them.

Standard library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
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
"""How often a file may be renamed between being opened and being locked."""


def lock(file: IO[bytes] | int, *, shared: bool = False, wait_s: float = 0.0) -> bool:
    """Lock an open file, or a folder's descriptor, until it is closed.

    `shared`: others may have it shared at the same time. False where there is no such lock: some
    clusters mount their file systems without, and NFS has none of a folder. Raises BlockingIOError
    when somebody else still has it after `wait_s`.
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
    """`path`, open to read and to append to, and locked until it is closed.

    A file that is not there is made, with `mode`. Raises BlockingIOError when somebody else has it
    still after `wait_s`, another OSError when it cannot be opened.
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
    """Be the only one who works in `folder`, among those who ask. Raises as `lock` does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor, wait_s=wait_s)
        yield
    finally:
        os.close(descriptor)


def is_file_at(file: IO[bytes], path: Path) -> bool:
    """Whether the open file is the one at `path`: it may have been renamed, removed, replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False
