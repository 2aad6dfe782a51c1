"""Many timeouts of one length behave as if each had a timer of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest

from palestra.engine.deadlines import Deadlines

SOON_S = 0.05


async def bounded(deadlines: Deadlines, work: Callable[[], Awaitable[object]]) -> str:
    """How `work` ended."""
    try:
        async with asyncio.timeout(None) as limit:
            with deadlines.over(limit):
                await work()
                return "done"
    except TimeoutError:
        return "timeout"


async def forever() -> None:
    await asyncio.Event().wait()


async def a_moment() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("works", [[forever], [a_moment, forever, a_moment], [forever] * 3])
def test_what_takes_too_long_runs_out_and_nothing_else(
    works: list[Callable[[], Awaitable[object]]],
) -> None:
    async def run() -> list[str]:
        with closing(Deadlines(SOON_S)) as deadlines:
            return await asyncio.gather(*(bounded(deadlines, work) for work in works))

    expected = ["timeout" if work is forever else "done" for work in works]
    assert asyncio.run(run()) == expected


def test_a_later_one_has_its_whole_time() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        with closing(Deadlines(SOON_S)) as deadlines:
            first = asyncio.create_task(bounded(deadlines, forever))
            await asyncio.sleep(SOON_S / 2)
            began = loop.time()
            assert await bounded(deadlines, forever) == "timeout"
            assert first.done()
            return loop.time() - began

    assert asyncio.run(run()) >= SOON_S * 0.95


def test_one_that_is_slow_to_end_does_not_run_out_twice() -> None:
    async def stubborn() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(3 * SOON_S)

    async def run() -> list[str]:
        with closing(Deadlines(SOON_S)) as deadlines:
            slow = asyncio.create_task(bounded(deadlines, stubborn))
            await asyncio.sleep(SOON_S / 2)
            return [await bounded(deadlines, forever), await slow]

    assert asyncio.run(run()) == ["timeout", "timeout"]


def test_a_task_cancelled_from_outside_is_cancelled() -> None:
    async def run() -> None:
        with closing(Deadlines(60)) as deadlines:
            task = asyncio.create_task(bounded(deadlines, forever))
            await asyncio.sleep(0)
            task.cancel()
            await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
