"""Runs coroutines and functions for callers without an event loop, and beside one that runs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from palestra.errors import BadInput
from palestra.fleet import rare_collections
from palestra.training import LoopThread

T = TypeVar("T")


def is_in_loop() -> bool:
    """Whether an event loop runs in this thread, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_blocking(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result. Where a loop runs already, use a thread.

    After Ctrl-C the coroutine is cancelled and waited for. A BadInput comes without the frames of
    Palestra: its message says what to change, and a notebook would show hundreds of lines.
    """
    __tracebackhide__ = True
    try:
        return _run(main)
    except BadInput as error:
        raise error.with_traceback(None) from error.__cause__


def _run(main: Coroutine[Any, Any, T]) -> T:
    if is_in_loop():
        with LoopThread() as loop:
            return loop.run(main)
    import uvloop

    async def run() -> T:
        async with rare_collections():
            return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def away_from_loop(function: Callable[[], T]) -> T:
    """Call a function that runs event loops of its own. Where a loop runs already, use a thread.

    After Ctrl-C nothing waits for that thread, so the function should only look.
    """
    if not is_in_loop():
        return function()
    with LoopThread() as loop:
        return loop.run(asyncio.to_thread(function))
