"""Calls of a trainer's rollouts wait while its weights change."""

import asyncio

import pytest

from palestra.errors import RowIdentity
from palestra.server.capture import TrainingRun, TurnCapture
from palestra.transport import CallContext, calling

pytestmark = pytest.mark.anyio

MINE = CallContext(row=RowIdentity(0, 0, 1, "agent", "run.1"))


async def answer() -> str:
    return "answer"


async def call(capture: TurnCapture, context: CallContext) -> str:
    with calling(context):
        return await capture.during(answer(), lambda tokens: tokens.verdict)


@pytest.mark.parametrize(
    "context",
    [
        CallContext(),
        CallContext(row=RowIdentity(0, 0, 1, "agent", "other.1")),
        CallContext(row=MINE.row, in_environment=True),
    ],
    ids=["no rollout", "another trainer's", "a judge"],
)
async def test_calls_that_are_not_of_the_held_run_begin(context: CallContext) -> None:
    capture = TurnCapture()
    capture.apply(TrainingRun(run="run", hold=True))

    async with asyncio.timeout(5):
        assert await call(capture, context) == "answer"


@pytest.mark.parametrize(
    "order",
    [TrainingRun(run="run", weights=3), TrainingRun(run="run", open=False)],
    ids=["new weights", "the trainer leaves"],
)
async def test_held_calls_go_on(order: TrainingRun) -> None:
    capture = TurnCapture()
    capture.apply(TrainingRun(run="run", hold=True))
    held = asyncio.create_task(call(capture, MINE))
    await asyncio.sleep(0)
    assert not held.done()

    capture.apply(order)

    async with asyncio.timeout(5):
        assert await held == "answer"


async def test_held_calls_go_on_when_the_trainer_is_silent() -> None:
    capture = TurnCapture()
    capture.apply(TrainingRun(run="run", open=False, hold=True, lease_s=0.01))

    async with asyncio.timeout(5):
        assert await call(capture, MINE) == "answer"
