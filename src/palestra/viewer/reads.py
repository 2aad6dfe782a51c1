"""Runs reads in threads: a few of each kind at once, each ended when the page leaves."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Final, TypeVar, final


class ReadKind(StrEnum):
    """How much a read reads."""

    TABLE = "table"
    """Only columns of the index."""
    ROW = "row"
    """A whole row of a file, which may have hundreds of megabytes."""
    RUN = "run"
    """Many rows."""


AT_ONCE: Final = {ReadKind.TABLE: 8, ReadKind.ROW: 4, ReadKind.RUN: 4}
"""How many reads of each kind run at once."""

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
    """A pool of threads for each kind: a table never waits behind rows, a row never behind a run."""

    def __init__(self) -> None:
        self._pools = {
            kind: ThreadPoolExecutor(count, thread_name_prefix=f"{kind} read")
            for kind, count in AT_ONCE.items()
        }

    async def run(
        self,
        task: Callable[[ReadStop], T],
        wait_for_leaving: Callable[[], Awaitable[None]],
        *,
        kind: ReadKind,
    ) -> T:
        """Return what `task` returns. `wait_for_leaving`: returns when the page that asked has left.

        Raises PageLeft: it has. The read is then not begun, or asked to stop.
        """
        stop = ReadStop()
        reading = asyncio.get_running_loop().run_in_executor(self._pools[kind], task, stop)
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
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
