"""The places where an isolated program may make files, as seen from outside."""

import contextlib
import os
from pathlib import Path

WRITABLE = ("tmp", "dev/shm")


class MadeFiles:
    """Counts files: empty ones cost memory that no limit of the kernel's counts."""

    def __init__(self) -> None:
        ours = [Path("/"), *(Path("/", place) for place in WRITABLE)]
        self._our_devices = {place.stat().st_dev for place in ours if place.exists()}

    def count(self, pid: int) -> int:
        """How many there are in all the places that this isolated process sees."""
        return sum(self._count_in(f"/proc/{pid}/root/{place}") for place in WRITABLE)

    def _count_in(self, place: str) -> int:
        with contextlib.suppress(OSError):
            # Until it has got its own root, which may be later than now, it is in ours.
            if Path(place).stat().st_dev not in self._our_devices:
                space = os.statvfs(place)
                return space.f_files - space.f_ffree
        return 0
