"""A file that one process at a time writes, and that takes another name when it is whole."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def _lock(file: BinaryIO) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_alone(path: Path, *, lock: Callable[[BinaryIO], None] = _lock) -> BinaryIO:
    """`path`, open to append to, and locked until it is closed.

    Raises BlockingIOError when somebody else has it. Who had it may rename it between our opening
    and our lock: what is locked then is their finished file, which must not be written to.
    """
    while True:
        file = path.open("ab")
        try:
            lock(file)
            if _is_at(path, file):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
