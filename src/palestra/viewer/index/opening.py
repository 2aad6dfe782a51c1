"""Opens the index of a run, removes it, and keeps all indexes within bounds."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from palestra.system import cache_folder, open_locked
from palestra.viewer.index.refreshing import LOCK, Index

VIEW: Final = "view"
INDEXES_BYTES: Final = 10 << 30
"""The largest size of all indexes together."""
FREE_SHARE: Final = 0.05
"""The share of the disk that indexes never take."""


def open_index(
    outputs: Sequence[Path], *, group_by: str | None = None, cache: Path | None = None
) -> Index:
    """Open the index of a run. It returns at once; `refresh` reads the files.

    `outputs`: the rollouts file, or those of the run's shards; a file need not exist yet.
    `group_by`: the field that is the family, as in `profile`. `cache`: by default
    `$PALESTRA_CACHE_DIR`, else the user's cache folder. When the cache cannot be written, or the
    disk is nearly full, the index is in memory, and `progress.in_memory` says why.
    """
    family = group_by or ""
    root = (cache or cache_folder()) / VIEW
    ending = f"-{_digest([family])[:8]}" if family else ""
    folder = root / f"{run_digest(outputs)}{ending}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
        folder.mkdir(mode=0o700, exist_ok=True)
        os.utime(folder)
        make_room(root, keep=folder)
    except OSError as error:
        reason = f"the cache {root} cannot be written: {error.strerror}"
        return Index(outputs, None, family=family, in_memory=reason)
    if not _has_room(root):
        reason = f"less than {FREE_SHARE:.0%} of the disk of {root} is free"
        return Index(outputs, None, family=family, in_memory=reason)
    return Index(outputs, folder, family=family)


def forget(outputs: Sequence[Path], *, cache: Path | None = None) -> int:
    """Remove every index of a run; return the number of bytes freed."""
    root = (cache or cache_folder()) / VIEW
    return sum(_remove(folder) for folder in root.glob(f"{run_digest(outputs)}*"))


def run_digest(outputs: Sequence[Path]) -> str:
    """Return the digest of the real paths of a run's outputs, which names it in URLs."""
    return _digest(sorted(os.path.realpath(output) for output in outputs))


def make_room(root: Path, *, keep: Path) -> None:
    """Remove the indexes that were not used for the longest time, until the others are within
    bounds. One that a viewer has open stays.
    """
    folders = [folder for folder in root.iterdir() if folder.is_dir() and folder != keep]
    sizes = {folder: _size(folder) for folder in folders}
    total = sum(sizes.values()) + _size(keep)
    for folder in sorted(folders, key=_used_at):
        if total <= INDEXES_BYTES and _has_room(root):
            return
        if _is_free(folder):
            total -= _remove(folder)


def _has_room(root: Path) -> bool:
    disk = shutil.disk_usage(root)
    return disk.free >= FREE_SHARE * disk.total


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


def _remove(folder: Path) -> int:
    size = _size(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return size


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(parent) / name).is_file())


def _digest(texts: Sequence[str]) -> str:
    data = "\0".join(texts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, digest_size=10).hexdigest()
