"""Opens the index of a run, and removes it."""

from collections.abc import Sequence
from pathlib import Path

from palestra.viewer.index.refreshing import Index


def open_index(
    outputs: Sequence[Path], *, group_by: str | None = None, cache: Path | None = None
) -> Index:
    """Open the index of a run. It returns at once; `refresh` reads the files.

    `outputs`: the rollouts file, or those of the run's shards; a file need not exist yet.
    `group_by`: the field that is the family, as in `profile`. `cache`: by default
    `$PALESTRA_CACHE_DIR`, else the user's cache folder. When the cache cannot be written, or the
    disk is nearly full, the index is in memory, and `progress.in_memory` says why.
    """
    raise NotImplementedError


def forget(outputs: Sequence[Path], *, cache: Path | None = None) -> int:
    """Remove every index of a run; return the number of bytes freed."""
    raise NotImplementedError
