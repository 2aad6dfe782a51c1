"""How long the event loop stood still, and an alarm for when it does not come back."""

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, final

BEAT_S: Final = 0.01
LOOK_S: Final = 0.25


@final
class LoopGuard:
    """Measures gaps between beats on the loop that it is entered on; an async context manager.

    `on_frozen` is called from a thread of its own, once, when a gap has lasted `frozen_s`.
    """

    def __init__(self, on_frozen: Callable[[float], None], *, frozen_s: float) -> None:
        self._on_frozen = on_frozen
        self._frozen_s = frozen_s
        self._last = time.monotonic()
        self._longest = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True, name="loop guard")

    async def __aenter__(self) -> Self:
        self._beat(asyncio.get_running_loop())
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        if self._handle is not None:
            self._handle.cancel()
        self._stopping.set()
        self._thread.join(1.0)

    def begin(self) -> None:
        """Forget what was measured so far."""
        self._note()
        self._longest = 0.0

    def longest_s(self) -> float:
        """The longest time since `begin` for which the loop ran nothing else."""
        self._note()
        return self._longest

    def _note(self) -> None:
        now = time.monotonic()
        self._longest = max(self._longest, now - self._last - BEAT_S)
        self._last = now

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._note()
        self._handle = loop.call_later(BEAT_S, self._beat, loop)

    def _look(self) -> None:
        while not self._stopping.wait(LOOK_S):
            still_s = time.monotonic() - self._last
            if still_s >= self._frozen_s:
                self._on_frozen(still_s)
                return
