"""What workers are told to do in tests."""

import asyncio
import errno
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from palestra.sandbox import LocalWorkers

T = TypeVar("T")

PRELOADED: list[int] = []


def preload() -> None:
    PRELOADED.append(os.getpid())


def preloaded_by() -> list[int]:
    return [*PRELOADED, os.getppid()]


def refuse_two_forks() -> None:
    _refuse_forks(2)


def refuse_every_fork() -> None:
    _refuse_forks(1_000)


def _refuse_forks(count: int) -> None:
    """In the nursery, whose own process this is called in before it forks."""
    refusals, fork = iter(range(count)), os.fork

    def refuse() -> int:
        if next(refusals, None) is not None:
            raise BlockingIOError(errno.EAGAIN, "no process")
        return fork()

    os.fork = refuse


def fail_to_preload() -> None:
    raise RuntimeError("no such dictionary")


def raise_base_exception() -> None:
    raise KeyboardInterrupt("from a library")


def allocate(mib: int) -> int:
    return len(bytearray(mib * 2**20))


def die_by(number: int) -> None:
    if number != signal.SIGKILL:
        # Below nohup SIGHUP is ignored, by the workers too.
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def segfault() -> None:
    import ctypes

    ctypes.string_at(1)


def tell_and_sleep(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def never_ends_in_native_code() -> int:
    return 9 ** (9**9)


def never_ends_in_a_regex() -> object:
    import re

    return re.fullmatch(r"(a|a)*b", "a" * 60)


def order_of_start(path: str, name: str) -> None:
    with Path(path).open("a") as file:
        file.write(name)


def environment() -> dict[str, str]:
    return dict(os.environ)


def with_workers(do: Callable[[LocalWorkers], Awaitable[T]], **settings: Any) -> T:
    async def run() -> T:
        workers = LocalWorkers(**settings)
        try:
            return await do(workers)
        finally:
            await workers.close()

    return asyncio.run(run())


def called(function: str, *args: Any, limit_s: float = 20.0, **settings: Any) -> Any:
    """What one call of one of this module's functions ends with."""
    name = function if ":" in function else f"chores:{function}"
    return with_workers(lambda workers: workers.call(name, *args, limit_s=limit_s), **settings)


def wait_until_gone(pid: int) -> None:
    """Block until there is no such process; the test's own timeout is the limit."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os.close(process)
