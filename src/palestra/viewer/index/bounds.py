"""Keeps all indexes together within bounds."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.system import open_locked
from palestra.viewer.index.storage import MEMORY_BYTES

LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """How much room indexes take."""

    indexes_bytes: int = 10 << 30
    """The largest size of all indexes together."""
    free_share: float = 0.05
    """The share of the disk that indexes never take."""
    memory_bytes: int = MEMORY_BYTES
    """The largest size of an index in memory."""

    def problem(self, root: Path, folder: Path) -> str:
        """Return why the index in `folder` cannot stay; empty when it can. Indexes that were not
        used for the longest time are removed for it.
        """
        make_room(root, keep=folder, bounds=self)
        if size_of(folder) > self.indexes_bytes:
            return f"the index needs more than {self.indexes_bytes:,} bytes"
        if not self.has_room(root):
            return f"less than {self.free_share:.0%} of the disk of {root} is free"
        return ""

    def has_room(self, root: Path) -> bool:
        """Whether enough of the disk is free."""
        disk = shutil.disk_usage(root)
        return disk.free >= self.free_share * disk.total


USUAL_BOUNDS: Final = IndexBounds()


def make_room(root: Path, *, keep: Path, bounds: IndexBounds) -> None:
    """Remove the indexes that were not used for the longest time, until the others are within
    bounds. One that a viewer has open stays.
    """
    folders = [folder for folder in root.iterdir() if folder.is_dir() and folder != keep]
    sizes = {folder: size_of(folder) for folder in folders}
    total = sum(sizes.values()) + size_of(keep)
    for folder in sorted(folders, key=_used_at):
        if total <= bounds.indexes_bytes and bounds.has_room(root):
            return
        if _is_free(folder):
            total -= remove(folder)


def _used_at(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _is_free(folder: Path) -> bool:
    try:
        open_locked(folder / LOCK, mode=0o600).close()
    except OSError:
        return False
    return True


def remove(folder: Path) -> int:
    """Remove an index; return the number of bytes freed."""
    size = size_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return size


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(parent) / name).is_file())
