"""Write files whole or not at all, and rename or remove them.

New content is written to a temporary file in the same folder, synced to the disk, and then renamed
in one step. A kill at any moment leaves either the old file or the complete new one. This module
uses the standard library only and supports Python 3.8, because a cluster's supervisor includes a
copy of it.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import IO, BinaryIO, Final

from palestra.system.processes import is_gone, process_name

TEMPORARY: Final = ".tmp"
"""The suffix of a file that is being written."""


def shown(path: Path) -> str:
    """Return a path as a user would type it from the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def file_and_line(path: Path, line: int | None) -> str:
    """Return `FILE:LINE` for the beginning of a message, or the file alone where no line is known."""
    return shown(path) if line is None else f"{shown(path)}:{line}"


def absolute_text(path: Path) -> str:
    """Return a path as it can be typed in every folder."""
    return str(path.absolute())


def unused(path: Path, files_of: Callable[[Path], Iterable[Path]]) -> Path:
    """Return `path`, else the first of `NAME_2`, `NAME_3`, … of which no file exists. `files_of`: the
    files that a path stands for.
    """
    numbered = (path.with_name(f"{path.stem}_{number}{path.suffix}") for number in count(2))
    paths = chain((path,), numbered)
    return next(path for path in paths if not any(file.exists() for file in files_of(path)))


def matching_files(pattern: str | Path) -> tuple[Path, ...]:
    """Return the files that match a glob, sorted. A path that exists is no glob.

    Empty when nothing matches.
    """
    path = Path(pattern)
    if path.exists():
        return (path,)
    names = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207  # absolute patterns too
    return tuple(Path(name) for name in names if Path(name).is_file())


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a temporary file. It replaces `path` when the body ends, and is removed when the body
    fails.

    `mode`: the file's permissions, restricted by the umask. If several writers write the same path,
    the last one to end wins. Raises OSError; the old file at `path` then remains.
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
    """Call `undo` when the body raises or is cancelled."""
    try:
        yield
    except BaseException:
        undo()
        raise


def _temporary_of(path: Path) -> Path:
    # A name of its own: not every file system has locks that keep two writers of one file apart.
    return path.with_name(f"{path.name}.{process_name()}-{os.urandom(4).hex()}{TEMPORARY}")


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files that killed writers of `path` have left."""
    for temporary in path.parent.glob(f"{glob.escape(path.name)}.*{TEMPORARY}"):
        if is_gone(temporary.name[len(path.name) + 1 :]):
            with contextlib.suppress(OSError):
                temporary.unlink()


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write `data` to `path`, whole or not at all; see `replacing`. Raises OSError."""
    with replacing(path, mode=mode) as file:
        file.write(data)


def create_whole(path: Path, data: bytes) -> None:
    """Create a file with all its content in one step. If several processes try, only one succeeds.

    Raises FileExistsError when the file exists, and OSError for other failures.
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
    """Rename `source` to `target` in one step, on the same file system. An existing `target` is
    replaced.
    """
    source.replace(target)


def set_aside(paths: Iterable[Path], suffix: str) -> list[Path]:
    """Add `suffix` to the names of those `paths` that exist, and return their old paths, in order."""
    moved = []
    for path in paths:
        if path.exists():
            move(path, path.with_name(path.name + suffix))
            moved.append(path)
    return moved


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those `folders` that are empty. List the innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def sync(file: IO[bytes]) -> None:
    """Flush a file to the disk, so that its content survives a crash of the machine."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that its new file names survive a crash of the machine, if the file system
    supports it.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
