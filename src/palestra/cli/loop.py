"""Running a command's coroutine: the first Ctrl-C or SIGTERM stops it in order, the second at once."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from palestra.serving import rare_collections

T = TypeVar("T")


class Stopped(Exception):
    """The user or the system asked the command to stop."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that ended because of this signal."""
        return 128 + self.signal


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a fast loop, in a process of its own. Raises Stopped when a signal ended it."""
    import uvloop

    with rare_collections():
        return uvloop.run(_stoppable(main))


async def _stoppable(main: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
