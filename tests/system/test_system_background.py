"""Work beside other work ends with it."""

import asyncio

import pytest

from palestra.system import background

pytestmark = pytest.mark.anyio


async def test_the_work_has_ended_when_the_body_has() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with background(work()) as task:
        await begun.wait()

    assert ended.is_set()
    assert task.cancelled()


@pytest.mark.slow
async def test_work_that_swallows_a_cancellation_is_cancelled_again() -> None:
    begun = asyncio.Event()
    swallowed = 0

    async def work() -> None:
        nonlocal swallowed
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed += 1
        await asyncio.Event().wait()

    async with background(work()) as task:
        await begun.wait()

    assert swallowed == 1
    assert task.cancelled()
