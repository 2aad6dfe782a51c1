"""What a client tells when things go wrong quietly: empty batches, deadlines, dead endpoints."""

import asyncio
from typing import Any

import pytest
from training_world import ONCE, answer, request, requests, said, trainer

from palestra.errors import InfraError, Layer
from palestra.fleet import ChildExit
from palestra.responses_api_models.local_model.running import EngineDied
from palestra.training import (
    Attempts,
    Completed,
    Failed,
    FailureClass,
    IncompleteRollouts,
    Key,
    NoTokenIds,
    OnIncomplete,
)
from palestra.transport import current_call

pytestmark = pytest.mark.anyio

PARTIAL = OnIncomplete.RETURN_PARTIAL


def without_ids(key: Key, attempt: int) -> Any:
    return answer(1.0, said(prompt=None))


@pytest.mark.parametrize("policy", OnIncomplete)
async def test_a_batch_without_any_token_ids_is_an_error(policy: OnIncomplete) -> None:
    async with trainer(without_ids, on_incomplete=policy) as (client, _, _):
        with pytest.raises(NoTokenIds, match="none of the 4 completed rollouts") as raised:
            await client.submit(requests(2, 2)).gather()

    assert "return_token_id_information" in raised.value.hint
    assert "token_ids=False" in raised.value.hint


async def test_groups_without_any_token_ids_are_an_error_too() -> None:
    async with trainer(without_ids) as (client, _, _):
        with pytest.raises(NoTokenIds):
            _ = [group async for group in client.submit(requests(2, 2)).groups(2)]


async def test_whoever_wants_no_token_ids_gets_none() -> None:
    async with trainer(without_ids, token_ids=False) as (client, _, _):
        assert len(await client.submit(requests(2)).gather()) == 2


async def test_one_rollout_that_lost_its_token_ids_is_masked() -> None:
    def script(key: Key, attempt: int) -> Any:
        return without_ids(key, attempt) if key.task_id == 1 else 1.0

    async with trainer(script) as (client, _, _):
        both = await client.submit(requests(2)).gather()
        (alone,) = await client.submit([request(1)]).gather()

    assert [found.masked for found in both if isinstance(found, Completed)] == [False, True]
    assert isinstance(alone, Completed)
    assert alone.masked


async def test_a_deadline_says_what_was_awaited() -> None:
    async def hangs(key: Key, attempt: int) -> float:
        await asyncio.sleep(60)
        return 1.0

    async with trainer(hangs, on_incomplete=PARTIAL) as (client, _, _):
        batch = client.submit([request(deadline_s=0.3)])
        found = [outcome async for outcome in _until_empty(batch)]

    (failed,) = found
    assert failed.failure is FailureClass.TIMEOUT
    assert failed.attempts == 1
    assert "agent /run" in failed.message


async def test_a_deadline_between_two_attempts_says_how_the_last_one_failed() -> None:
    def fails(key: Key, attempt: int) -> float:
        raise InfraError("the disk is full")

    slow = Attempts(first_pause_s=30.0)
    async with trainer(fails, on_incomplete=PARTIAL, attempts=slow) as (client, _, _):
        client._running.runner._repeatable_agents["agent"] = True
        batch = client.submit([request(deadline_s=0.3)])
        (failed,) = [outcome async for outcome in _until_empty(batch)]

    assert failed.failure is FailureClass.TIMEOUT
    assert "attempt 1 failed (infra_error): the disk is full" in failed.message


async def _until_empty(batch: Any) -> Any:
    """The outcomes; that nothing has come back is no matter here."""
    while batch.summary().pending or batch._lane.batch.arrived:
        async with asyncio.timeout(20):
            yield await batch.next()


async def test_health_tells_what_is_asked_for_again_and_what_failed_last() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def refused(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            raise InfraError("the disk is full")
        activity = current_call().activity
        assert activity is not None
        activity.now("retrying", "another try, as policy_model refuses connections")
        asked.set()
        await go_on.wait()
        return 1.0

    settings: dict[str, Any] = {"attempts": ONCE, "on_incomplete": PARTIAL}
    async with trainer(refused, **settings) as (client, _, _), asyncio.timeout(20):
        batch = client.submit(requests(2))
        first = await batch.next()
        await asked.wait()
        health = await client.health()
        go_on.set()
        await batch.next()

    assert isinstance(first, Failed)
    assert health.ok
    assert health.retrying.startswith("1 of 1 in flight: another try, as policy_model refuses")
    assert health.last_failure == "rollout 1:0, attempt 1: the disk is full"
    assert first.layer == Layer.INFRA


async def test_health_tells_that_outcomes_wait_to_be_taken() -> None:
    async with trainer(lambda key, attempt: 1.0, in_flight=1, max_waiting=2) as (client, _, _):
        batch = client.submit(requests(5))
        await batch._quiet()
        health = await client.health()
        rest = [outcome async for outcome in batch]

    assert (health.waiting, health.held_back) == (2, "max_waiting")
    assert len(rest) == 5


async def test_a_gathering_that_is_cancelled_cancels_its_rollouts() -> None:
    stopped = asyncio.Event()

    async def hangs(key: Key, attempt: int) -> float:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return 1.0

    async with trainer(hangs) as (client, agent, _), asyncio.timeout(20):
        gathering = asyncio.create_task(client.submit([request()]).gather())
        await agent.until_begun(1)
        gathering.cancel()
        await stopped.wait()


async def test_the_end_of_a_process_that_a_server_keeps_is_told_as_a_servers_end() -> None:
    def fails(key: Key, attempt: int) -> float:
        died = EngineDied("the model's process 4711 ended")
        died.ending = ChildExit("policy_model", -9, (), pid=4711)
        raise died

    async with trainer(fails) as (client, _, _):
        with pytest.raises(IncompleteRollouts) as raised:
            await client.submit(requests(2)).gather()
        health = await client.health()

    cause = raised.value.cause
    assert (cause.process, cause.pid, cause.signal) == ("policy_model", 4711, "SIGKILL")
    assert "in_flight" in cause.setting
    assert "policy_model printed nothing" in str(raised.value)
    assert not health.ok
