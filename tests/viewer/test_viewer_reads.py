"""Reads run in threads, four heavy ones at once, and end when the page leaves."""

import asyncio
import threading

import pytest

from palestra.viewer.reads import HEAVY_AT_ONCE, PageLeft, Reads, ReadStop

pytestmark = pytest.mark.anyio


async def stays() -> None:
    await asyncio.Event().wait()


async def test_a_read_returns_its_value() -> None:
    assert await Reads().run(lambda _: 7, stays, heavy=True) == 7


async def test_a_page_that_leaves_stops_its_read() -> None:
    begun, stopped = threading.Event(), threading.Event()

    def read(stop: ReadStop) -> None:
        begun.set()
        try:
            while True:
                stop.check()
        except PageLeft:
            stopped.set()

    async def leaves() -> None:
        await asyncio.to_thread(begun.wait, 10)

    with pytest.raises(PageLeft):
        await Reads().run(read, leaves, heavy=True)
    assert await asyncio.to_thread(stopped.wait, 10)


async def test_light_reads_pass_heavy_ones() -> None:
    reads, release = Reads(), threading.Event()
    running = threading.Semaphore(0)

    def wait(_: ReadStop) -> None:
        running.release()
        release.wait(20)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(HEAVY_AT_ONCE + 2):
            tasks.create_task(reads.run(wait, stays, heavy=True))
        for _ in range(HEAVY_AT_ONCE):
            await asyncio.to_thread(running.acquire, timeout=10)
        assert await reads.run(lambda _: "light", stays, heavy=False) == "light"
        assert not running.acquire(blocking=False)
        release.set()
