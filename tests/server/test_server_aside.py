"""Authors' plain functions, run where none of them can hold the others up."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import pytest

from palestra.server import Aside


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end, so that no thread of a test outlives it."""
    event = threading.Event()
    yield event
    event.set()


def test_the_loop_goes_on_while_a_function_runs(released: threading.Event) -> None:
    async def both() -> bool:
        waiting = asyncio.create_task(Aside().run(lambda: released.wait(30)))
        await asyncio.sleep(0)
        released.set()
        return await waiting

    assert asyncio.run(both())


def test_calls_that_never_return_leave_their_places_when_cancelled(
    released: threading.Event,
) -> None:
    async def four() -> str:
        aside = Aside(at_once=1)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(aside.run(lambda: released.wait(30)), 0.05)
        answer = await asyncio.wait_for(aside.run(lambda: "the next"), 5)
        released.set()
        return answer

    assert asyncio.run(four()) == "the next"


def test_a_function_sees_its_callers_context() -> None:
    rollout: ContextVar[int] = ContextVar("rollout")

    async def seen() -> int:
        rollout.set(7)
        return await Aside().run(rollout.get)

    assert asyncio.run(seen()) == 7


def test_what_a_function_raises_is_raised_here() -> None:
    def fails() -> None:
        raise LookupError("no key")

    with pytest.raises(LookupError, match="no key"):
        asyncio.run(Aside().run(fails))


def stops() -> None:
    next(iter(()))


@pytest.mark.parametrize(
    ("function", "says"), [(lambda: sys.exit(3), "raised SystemExit: 3"), (stops, "StopIteration")]
)
def test_what_is_no_ordinary_exception_becomes_one(function: Callable[[], None], says: str) -> None:
    with pytest.raises(RuntimeError, match=says) as caught:
        asyncio.run(Aside().run(function))
    assert isinstance(caught.value.__cause__, SystemExit | StopIteration)
