"""Opens the index of a run, and removes it."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from palestra.system import cache_folder
from palestra.viewer.index.bounds import USUAL_BOUNDS, IndexBounds, remove
from palestra.viewer.index.refreshing import Index

VIEW: Final = "view"


def open_index(
    outputs: Sequence[Path],
    *,
    group_by: str | None = None,
    cache: Path | None = None,
    bounds: IndexBounds = USUAL_BOUNDS,
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
        reason = bounds.problem(root, folder)
    except OSError as error:
        reason = f"the cache {root} cannot be written: {error.strerror}"
    return Index(
        outputs, None if reason else folder, family=family, in_memory=reason, bounds=bounds
    )


def forget(outputs: Sequence[Path], *, cache: Path | None = None) -> int:
    """Remove every index of a run; return the number of bytes freed."""
    root = (cache or cache_folder()) / VIEW
    return sum(remove(folder) for folder in root.glob(f"{run_digest(outputs)}*"))


def run_digest(outputs: Sequence[Path]) -> str:
    """Return the digest of the real paths of a run's outputs, which names it in URLs."""
    return _digest(sorted(os.path.realpath(output) for output in outputs))


def _digest(texts: Sequence[str]) -> str:
    data = "\0".join(texts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, digest_size=10).hexdigest()
