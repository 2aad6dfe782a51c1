"""Measure how long the event loop is blocked, and raise an alarm when it does not run again."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Final, Self, final

BEAT_S: Final = 0.01
LOOK_S: Final = 0.25


class _Waiting:
    """Measures how long this thread was ready to run while other threads used the processor.

    Only Linux counts this time. On other systems it is 0, and a busy machine looks like a slow
    verifier.
    """

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def so_far_s(self) -> float:
        """Return the waiting time since the thread began, in seconds."""
        if self._file < 0:
            return 0.0
        return int(os.pread(self._file, 128, 0).split()[1]) / 1e9

    def close(self) -> None:
        """Stop counting, and close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@final
class LoopGuard:
    """An async context manager that measures blocks of its event loop, as gaps between regular
    beats.

    Time in which other programs used the processor does not count.

    `on_frozen` is called once, from another thread, when a gap has lasted `frozen_s`.
    """

    def __init__(self, on_frozen: Callable[[float], None], *, frozen_s: float) -> None:
        self._on_frozen = on_frozen
        self._frozen_s = frozen_s
        self._last = time.monotonic()
        self._longest = 0.0
        self._waiting = _Waiting()
        self._waited = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._check_loop, daemon=True, name="loop guard")

    async def __aenter__(self) -> Self:
        self._beat(asyncio.get_running_loop())
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._stopping.set()
        self._thread.join(1.0)
        self._waiting.close()

    def begin(self) -> None:
        """Start a new measurement."""
        self._note()
        self._longest = 0.0

    def still_s(self) -> float:
        """Return how long ago the event loop last ran the guard's beat, in seconds."""
        return time.monotonic() - self._last

    def longest_s(self) -> float:
        """Return the longest block of the event loop since `begin`, in seconds."""
        self._note()
        return self._longest

    def _note(self) -> None:
        now, waited = time.monotonic(), self._waiting.so_far_s()
        held_up_s = now - self._last - BEAT_S - (waited - self._waited)
        self._longest = max(self._longest, held_up_s)
        self._last, self._waited = now, waited

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._note()
        self._handle = loop.call_later(BEAT_S, self._beat, loop)

    def _check_loop(self) -> None:
        while not self._stopping.wait(LOOK_S):
            still_s = self.still_s()
            if still_s >= self._frozen_s:
                self._on_frozen(still_s)
                return
