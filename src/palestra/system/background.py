"""Work that runs beside other work, and ends with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

CANCEL_EVERY_S: Final = 0.5

Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def background(
    work: Coroutine[Any, Any, Result], name: str | None = None
) -> AsyncIterator[asyncio.Task[Result]]:
    """Run `work` as a task while the body runs. Then cancel the task, and wait for its end.

    The cancellation is repeated, because code that `work` calls may swallow one.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_EVERY_S)
