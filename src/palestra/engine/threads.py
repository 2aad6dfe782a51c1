"""Work of a thread that a coroutine waits for."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
    """Run `work` in a thread and return its result. A cancellation waits for the thread to end.

    `undo` is called with the result after a cancellation, because the caller cannot use it any
    more.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        if undo is not None and not working.cancelled() and working.exception() is None:
            undo(working.result())
        raise
