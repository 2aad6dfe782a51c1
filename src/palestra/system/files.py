"""Files that are whole or absent, and the names they take.

What is written stands under a temporary name beside its place, goes down to the disk, and then takes
the place in one step: a kill at any moment leaves what was there before, or all of the new. Standard
library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final

from palestra.system.processes import is_gone, process_name

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is being written."""


def shown(path: Path) -> str:
    """A path as its reader would type it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file that takes `path`'s place when the body ends, and leaves no trace if it fails.

    `mode`: who may read and write it, as far as the umask allows. Of several writers the last to
    end has the place. Raises OSError; what was at `path` is there still then.
    """
    _remove_abandoned(path)
    temporary = _temporary_of(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            yield file
            sync(file)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` when the body does not reach its end, also when it is cancelled."""
    try:
        yield
    except BaseException:
        undo()
        raise


def _temporary_of(path: Path) -> Path:
    # A name of its own: not every file system has locks that keep two writers of one file apart.
    return path.with_name(f"{path.name}.{process_name()}-{os.urandom(4).hex()}{TEMPORARY}")


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers of `path` have left."""
    for temporary in path.parent.glob(f"{glob.escape(path.name)}.*{TEMPORARY}"):
        if is_gone(temporary.name[len(path.name) + 1 :]):
            with contextlib.suppress(OSError):
                temporary.unlink()


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write `data` to `path`, whole or not at all: see `replacing`. Raises OSError."""
    with replacing(path, mode=mode) as file:
        file.write(data)


def create_whole(path: Path, data: bytes) -> None:
    """Make a file that appears whole, and of several that try only once.

    Raises FileExistsError when there is one, else OSError.
    """
    temporary = _temporary_of(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            sync(file)
        # A link does both, also on file systems where exclusive creation does not.
        os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


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
    """Make names in a folder survive a crash of the machine, where its file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
