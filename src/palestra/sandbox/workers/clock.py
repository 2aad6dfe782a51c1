"""How long a process has worked, not counting what it waited for a core.

A limit in plain seconds would fail the same answer on a busy machine and pass it on an idle one.
Linux says how long a thread stood in the queue for a processor; that is taken off. A function
that sleeps is not in that queue, so sleeping counts.
"""

import time
from pathlib import Path
from typing import final


@final
class WorkClock:
    """Started when made; where the system does not tell, this is an ordinary clock."""

    def __init__(self, pid: int) -> None:
        self._schedstat = Path(f"/proc/{pid}/schedstat")
        self._started = time.monotonic()
        self._queued_at_start_s = self._queued_s()

    def wall_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def worked_s(self) -> float:
        """Seconds since the start, without those in the queue for a core."""
        return self.wall_s() - (self._queued_s() - self._queued_at_start_s)

    def _queued_s(self) -> float:
        try:
            return int(self._schedstat.read_text("ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
