"""Runs reads in threads: at most four heavy ones at once, each ended when the page leaves."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, final

HEAVY_AT_ONCE: Final = 4
LIGHT_AT_ONCE: Final = 8

T = TypeVar("T")


class PageLeft(Exception):
    """The page that asked has left, so nobody reads the result."""


@final
class ReadStop:
    """What a long read asks between its steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask the read to end."""
        self._event.set()

    def check(self) -> None:
        """Raise PageLeft when the page has left."""
        if self._event.is_set():
            raise PageLeft


@final
class Reads:
    """Two pools of threads: a table page never waits behind heavy reads."""

    def __init__(self) -> None:
        self._heavy = ThreadPoolExecutor(HEAVY_AT_ONCE, thread_name_prefix="heavy read")
        self._light = ThreadPoolExecutor(LIGHT_AT_ONCE, thread_name_prefix="read")

    async def run(
        self,
        task: Callable[[ReadStop], T],
        wait_for_leaving: Callable[[], Awaitable[None]],
        *,
        heavy: bool,
    ) -> T:
        """Return what `task` returns. `wait_for_leaving`: returns when the page that asked has left.

        Raises PageLeft: it has. The read is then not begun, or asked to stop.
        """
        stop = ReadStop()
        pool = self._heavy if heavy else self._light
        reading = asyncio.get_running_loop().run_in_executor(pool, task, stop)
        leaving = asyncio.ensure_future(wait_for_leaving())
        try:
            waiting: set[asyncio.Future[Any]] = {reading, leaving}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise PageLeft
        finally:
            stop.set()
            leaving.cancel()
            if not reading.done():
                reading.cancel()

    def close(self) -> None:
        """End the pools; reads that run are not waited for."""
        for pool in (self._heavy, self._light):
            pool.shutdown(wait=False, cancel_futures=True)
