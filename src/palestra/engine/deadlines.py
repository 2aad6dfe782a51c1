"""`Deadlines`: the same as `asyncio.timeout(limit_s)` for many tasks, with a single shared timer.

Timeouts of equal length expire in the order in which they started, so one timer for the oldest is
enough. A timer for each would cost more than encoding its row: 14 us on uvloop.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Deadlines:
    """Limits the body of each `over` to `limit_s` seconds. Call `close` when no body runs."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: dict[asyncio.Timeout, float] = {}
        """When each runs out, by the loop's clock; the oldest comes first."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def over(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Make `timeout` expire after `limit_s`. It must have been entered, without a deadline."""
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
