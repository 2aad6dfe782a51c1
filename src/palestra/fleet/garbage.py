"""How often a process of ours looks for garbage that refers to itself.

Rollouts leave next to no cycles behind, and thousands in flight are millions of live objects,
each of which every full collection walks over: with 8,000 in flight Python's default thresholds
took half of all CPU time and stopped the event loop for up to 1.4 s. But they count objects, and
what an author's cycle holds may be large; so growth of the process asks for a collection, too.
"""

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Callable
from typing import Final

RARELY: Final = (20_000, 50, 50)
"""Thresholds of Python's three generations, of which 700, 10 and 10 are the defaults."""

GROWN_BYTES: Final = 256 * 2**20
GROWN_SHARE: Final = 0.25
"""A full collection comes when the process has grown by both since the last one."""
LOOK_EVERY_S: Final = 1.0


@contextlib.asynccontextmanager
async def rare_collections(
    *, resident: Callable[[], int] | None = None, look_every_s: float = LOOK_EVERY_S
) -> AsyncIterator[None]:
    """Collect rarely while the body runs. For whoever owns the process, not for a library.

    `resident`: the size of the process in bytes.
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
    """Memory of this process that is in use; where the system does not tell, the most it was."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  # once a second, no Path
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
