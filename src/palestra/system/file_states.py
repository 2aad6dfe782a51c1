"""Whether a file is still the one that was read."""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

_SETTLED_NS: Final = 2_000_000_000
"""A file that was written less than this ago may change again without another time stamp."""


class FileState(NamedTuple):
    """File attributes that change when a process writes to the file or replaces it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Self:
        """Return the state of a file from its status."""
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """Return the state of the file at a path; None when it cannot be looked at."""
        try:
            return cls.of(path.stat())
        except OSError:
            return None

    @property
    def is_settled(self) -> bool:
        """Whether every later write gives another state: the last one was at least 2 s ago."""
        return time.time_ns() - self.modified_ns > _SETTLED_NS
