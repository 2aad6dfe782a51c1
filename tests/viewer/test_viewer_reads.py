"""Reads run in threads, a few of each kind at once, and end when the page leaves."""

import asyncio
import threading

import pytest

from palestra.viewer.reads import AT_ONCE, PageLeft, ReadKind, Reads, ReadStop

pytestmark = pytest.mark.anyio


async def stays() -> None:
    await asyncio.Event().wait()


async def test_a_read_returns_its_value() -> None:
    assert await Reads().run(lambda _: 7, stays, kind=ReadKind.RUN) == 7


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
        await Reads().run(read, leaves, kind=ReadKind.RUN)
    assert await asyncio.to_thread(stopped.wait, 10)


@pytest.mark.parametrize("kind", [ReadKind.ROW, ReadKind.RUN])
async def test_reads_of_tables_pass_those_of_rows_and_runs(kind: ReadKind) -> None:
    reads, release = Reads(), threading.Event()
    running = threading.Semaphore(0)

    def wait(_: ReadStop) -> None:
        running.release()
        release.wait(20)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE[kind] + 2):
            tasks.create_task(reads.run(wait, stays, kind=kind))
        for _ in range(AT_ONCE[kind]):
            await asyncio.to_thread(running.acquire, timeout=10)
        assert await reads.run(lambda _: "table", stays, kind=ReadKind.TABLE) == "table"
        assert not running.acquire(blocking=False)
        release.set()
