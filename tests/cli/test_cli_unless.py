"""What comes first: a run's end, or that of a server it needs."""

import asyncio

import pytest

from palestra.api import unless
from palestra.errors import ServerDied


async def dying(after_s: float) -> None:
    await asyncio.sleep(after_s)
    raise ServerDied("server env ended with signal SIGKILL")


async def ended(result: str) -> str:
    return result


def test_a_result_that_a_dying_server_may_have_made_waits_for_that_news() -> None:
    with pytest.raises(ServerDied):
        asyncio.run(unless(dying(0.05), ended("failed"), doubtful=lambda result: True))


def test_a_result_that_no_server_can_have_made_does_not_wait() -> None:
    async def main() -> str:
        return await unless(
            dying(0.05), ended("scored"), doubtful=lambda result: result == "failed"
        )

    assert asyncio.run(main()) == "scored"


def test_a_doubtful_result_stands_when_every_server_lives() -> None:
    assert asyncio.run(unless(asyncio.sleep(20), ended("failed"), doubtful=bool)) == "failed"
