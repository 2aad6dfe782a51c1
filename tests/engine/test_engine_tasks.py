"""Tasks that end together, in bounded time."""

import asyncio
import logging

import pytest

from palestra.engine.tasks import BoundedTasks
from palestra.errors import RunFailed


async def forever() -> None:
    await asyncio.Event().wait()


async def stubborn(let_go: asyncio.Event) -> None:
    while not let_go.is_set():
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            continue


def test_it_waits_for_all() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        ended.append(number)

    async def main() -> None:
        async with BoundedTasks() as tasks:
            for number in range(3):
                tasks.start(work(number))

    asyncio.run(main())
    assert sorted(ended) == [0, 1, 2]


def test_nothing_to_do_is_done() -> None:
    async def main() -> None:
        async with BoundedTasks():
            pass

    asyncio.run(main())


def test_the_first_error_cancels_the_others_and_is_raised_as_it_is() -> None:
    cancelled: list[bool] = []

    async def sibling() -> None:
        try:
            await forever()
        finally:
            cancelled.append(True)

    async def bug() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def main() -> None:
        async with BoundedTasks() as tasks:
            tasks.start(sibling())
            tasks.start(bug())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert cancelled == [True]


def test_a_task_that_swallows_its_cancellation_is_left_behind_and_said_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        let_go = asyncio.Event()

        async def collection() -> None:
            async with BoundedTasks(grace_s=0.05) as tasks:
                tasks.start(stubborn(let_go))
                tasks.start(forever())

        running = asyncio.create_task(collection())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait({running})
        assert running.cancelled()
        let_go.set()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "1 rollouts did not end within 0 s after they were cancelled" in caplog.text


def test_an_error_of_the_body_ends_its_tasks() -> None:
    async def main() -> None:
        async with BoundedTasks() as tasks:
            tasks.start(forever())
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(main())


def test_code_that_cancels_the_task_it_runs_in_is_an_error() -> None:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def main() -> None:
        async with BoundedTasks() as tasks:
            tasks.start(cancels_itself())

    with pytest.raises(RunFailed, match="cancelled the task that runs it"):
        asyncio.run(main())
