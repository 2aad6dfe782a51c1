"""Run Python's cyclic garbage collector less often in our processes.

Rollouts leave almost no reference cycles, but thousands in flight are millions of live objects, and
every full collection visits each of them. With 8,000 in flight, Python's default thresholds took
half of all CPU time and stopped the event loop for up to 1.4 s. The thresholds count objects only,
and one cycle in an author's code may hold much memory. So a full collection also runs when the
process's memory has grown.
"""

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Callable
from typing import Final

RARELY: Final = (20_000, 50, 50)
"""Collection thresholds of Python's three generations. Python's defaults are 700, 10 and 10."""

GROWN_BYTES: Final = 256 * 2**20
GROWN_SHARE: Final = 0.25
"""A full collection runs when the process has grown, since the last one, by more than `GROWN_BYTES`
and by more than this share of its size."""
LOOK_EVERY_S: Final = 1.0


@contextlib.asynccontextmanager
async def rare_collections(
    *, resident: Callable[[], int] | None = None, look_every_s: float = LOOK_EVERY_S
) -> AsyncIterator[None]:
    """Run the garbage collector rarely while the body runs. Use it in code that owns the process,
    not in a library.

    `resident`: returns the size of the process in bytes.
    """
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    looking = asyncio.create_task(_collect_when_grown(resident or resident_bytes, look_every_s))
    try:
        yield
    finally:
        looking.cancel()
        gc.set_threshold(*before)


async def _collect_when_grown(resident: Callable[[], int], look_every_s: float) -> None:
    size_after = resident()
    while True:
        await asyncio.sleep(look_every_s)
        if resident() - size_after > max(GROWN_BYTES, GROWN_SHARE * size_after):
            gc.collect()
            size_after = resident()


def resident_bytes() -> int:
    """Return the bytes of memory that this process uses now, or its peak usage where the system
    does not report the current one.
    """
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  # once a second, no Path
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
