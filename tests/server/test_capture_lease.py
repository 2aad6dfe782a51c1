"""A trainer that crashed leaves no open run on a model server."""

import asyncio
from collections.abc import Awaitable

import pytest

from palestra.errors import RowIdentity
from palestra.schema import Response, TurnTokens, response_of
from palestra.server import TrainingRun
from palestra.server.capture import TurnCapture
from palestra.transport import CallContext, calling

pytestmark = pytest.mark.anyio
ROLLOUT = RowIdentity(0, 0, 1, "agent", "run.1")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def ask(capture: TurnCapture) -> None:
    async def call() -> Response:
        made = response_of("hello", model="m")
        item = made.output[-1]
        item.prompt_token_ids, item.generation_token_ids = [1], [2]
        item.generation_log_probs = [-0.5]
        return made

    answering: Awaitable[Response] = call()
    with calling(CallContext(row=ROLLOUT)):
        await capture.during(answering, lambda tokens: tokens.verdict)


def kept(capture: TurnCapture) -> list[TurnTokens | None]:
    return [turn.tokens for turn in capture.take(ROLLOUT).turns]


async def test_a_run_that_is_not_renewed_is_closed_and_its_turns_are_forgotten() -> None:
    capture = TurnCapture()
    capture.apply(TrainingRun(run="run", lease_s=0.05))
    await ask(capture)
    await asyncio.sleep(0.1)

    assert not capture.is_open
    assert kept(capture) == []


async def test_a_run_that_is_renewed_stays_open() -> None:
    capture = TurnCapture()
    for _ in range(3):
        capture.apply(TrainingRun(run="run", lease_s=0.1))
        await asyncio.sleep(0.05)
    await ask(capture)

    assert capture.is_open
    assert len(kept(capture)) == 1


async def test_a_run_without_a_lease_stays_open() -> None:
    capture = TurnCapture()
    capture.apply(TrainingRun(run="run"))
    capture.apply(TrainingRun(run="another", lease_s=0.02))
    await asyncio.sleep(0.06)

    assert capture.is_open
    assert (await ask(capture), len(kept(capture))) == (None, 1)
