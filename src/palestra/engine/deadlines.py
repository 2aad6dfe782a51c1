"""`Deadlines`: `asyncio.timeout(limit_s)` for any number of tasks, with one timer among them.

Timeouts of equal length run out in the order in which they began, so a timer for the oldest is
enough. One for each costs more than encoding its row does: 14 us on uvloop.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Deadlines:
    """Bounds what runs inside of `over` to `limit_s` seconds. Close it when nothing does."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: dict[asyncio.Timeout, float] = {}
        """When each runs out, by the loop's clock; the oldest comes first."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def over(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Make `timeout`, which has been entered and has no deadline, run out in `limit_s`."""
        loop = asyncio.get_running_loop()
        self._due[timeout] = due = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_at(due, self._expire, loop)
        try:
            yield
        finally:
            self._due.pop(timeout, None)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._due:
            timeout, due = next(iter(self._due.items()))
            if due > now:
                self._timer = loop.call_at(due, self._expire, loop)
                return
            del self._due[timeout]
            timeout.reschedule(now)
