"""Files that are whole or absent, and the names they take.

What is written stands under a temporary name beside its place, goes down to the disk, and then takes
the place in one step: a kill at any moment leaves what was there before, or all of the new. Standard
library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final

from palestra.system.locks import open_alone

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is being written."""
WAIT_S: Final = 30.0
"""How long another writer of the same file is waited for."""


def temporary_of(path: Path) -> Path:
    """Where a file is written that will be at `path`."""
    return path.with_name(path.name + TEMPORARY)


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666, wait_s: float = WAIT_S) -> Iterator[BinaryIO]:
    """A file that takes `path`'s place when the body ends, and leaves no trace if it fails.

    `mode`: who may read and write it, as far as the umask allows. Of two writers the second waits.
    Raises OSError; what was at `path` is there still then.
    """
    beside = temporary_of(path)
    with open_alone(beside, mode=mode, wait_s=wait_s) as file:
        try:
            if os.fstat(file.fileno()).st_size:  # what a kill has left
                file.truncate(0)
            yield file
            sync(file)
            beside.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    sync_folder(path.parent)


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write `data` to `path`, whole or not at all: see `replacing`. Raises OSError."""
    with replacing(path, mode=mode) as file:
        file.write(data)


def create_whole(path: Path, data: bytes) -> None:
    """Make a file that appears whole, and of several that try only once.

    Raises FileExistsError when there is one, else OSError.
    """
    beside = path.with_name(f"{path.name}.{os.urandom(8).hex()}{TEMPORARY}")
    try:
        beside.write_bytes(data)
        # A link does both, also on file systems where exclusive creation does not.
        os.link(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def move(source: Path, target: Path) -> None:
    """Give `source` the name `target`, on one file system and in one step; replaces what is there."""
    source.replace(target)


def set_aside(paths: Iterable[Path], suffix: str) -> list[Path]:
    """Add `suffix` to the names of those of `paths` that exist, in order; those that were."""
    moved = []
    for path in paths:
        if path.exists():
            move(path, path.with_name(path.name + suffix))
            moved.append(path)
    return moved


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove `folders`, innermost first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def sync(file: IO[bytes]) -> None:
    """Make what was written survive a crash of the machine."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
