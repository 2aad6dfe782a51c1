"""What every client for a trainer does: one of its own fleet, one of a service, one of several
fleets.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from contract_world import CLIENTS, Opener
from training_world import answer, request, requests, said

from palestra.errors import BadInput, ConfigError, InputDataError, VerifierError
from palestra.training import (
    Completed,
    Failed,
    FailureClass,
    IncompleteRollouts,
    InvalidLogprobs,
    Key,
    NoTokenIds,
    OnIncomplete,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=list(CLIENTS))
def opened(request: pytest.FixtureRequest) -> Opener:
    """Opens one kind of client over an agent that does as a script says."""
    return CLIENTS[request.param]


def failing(*keys: Key) -> Callable[[Key, int], float]:
    """Rollouts whose verifier raises, among others that are worth 1."""

    def script(key: Key, _: int) -> float:
        if key in keys:
            raise VerifierError("it raised")
        return 1.0

    return script


async def test_every_outcome_comes_once_and_the_counts_add_up(opened: Opener) -> None:
    async with opened(lambda key, _: float(key.rollout_index)) as (client, _):
        async with client.submit(requests(5, 4)) as batch:
            outcomes = [outcome async for outcome in batch]
        summary = batch.summary()

    assert sorted(outcome.key for outcome in outcomes) == [
        Key(task, index) for task in range(5) for index in range(4)
    ]
    assert all(outcome.reward == outcome.rollout_index for outcome in outcomes)  # type: ignore[union-attr]
    assert (summary.requested, summary.completed, summary.adds_up) == (20, 20, True)


async def test_an_outcome_has_its_tokens_and_its_raw_row(opened: Opener) -> None:
    async with opened(lambda *_: answer(0.5, said((1, 2), (3,), (-0.25,)))) as (client, _):
        (outcome,) = await client.submit([request("a task", group_id="a group")]).gather()

    assert isinstance(outcome, Completed)
    assert (outcome.key, outcome.group_id, outcome.reward) == (Key("a task", 0), "a group", 0.5)
    assert (outcome.flat.ids, outcome.flat.logprobs) == ([1, 2, 3], [0.0, 0.0, -0.25])
    assert outcome.raw.plain()["reward"] == 0.5


async def test_gather_keeps_the_order_of_the_requests(opened: Opener) -> None:
    async def script(key: Key, attempt: int) -> float:
        for _ in range(10 - int(key.task_id)):
            await asyncio.sleep(0)
        return 1.0

    async with opened(script) as (client, _):
        outcomes = await client.submit(requests(8)).gather()

    assert [outcome.task_id for outcome in outcomes] == list(range(8))


async def test_a_group_is_yielded_while_others_still_run(opened: Opener) -> None:
    opened_gate = asyncio.Event()

    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 0:
            await opened_gate.wait()
        return float(key.task_id)

    async with opened(script) as (client, _):
        groups = client.submit(requests(2, 3)).groups(3)
        first = await anext(groups)
        opened_gate.set()
        second = await anext(groups)

    assert (first.group_id, second.group_id) == (1, 0)
    assert second.rewards == [0.0, 0.0, 0.0]


async def test_groups_that_are_larger_than_the_batch_are_refused_at_once(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, _), client.submit(requests(2, 4)) as batch:
        with pytest.raises(InputDataError, match="16 members; 0 has 4"):
            await anext(batch.groups(16))


async def test_an_empty_submission_is_refused(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, agent):
        with pytest.raises(InputDataError, match="empty"):
            client.submit([])

    assert agent.begun == []


async def test_requests_that_occur_twice_are_refused_before_anything_runs(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, agent):
        with pytest.raises(InputDataError, match="0:0 is asked for twice"):
            client.submit([request(0), request(0), request(1)])

    assert agent.begun == []


async def test_one_request_in_the_list_several_times_is_refused_too(opened: Opener) -> None:
    """As `[request] * 8`, which looks like eight rollouts."""
    async with opened(lambda *_: 1.0) as (client, agent):
        with pytest.raises(InputDataError, match="0:0 is asked for twice"):
            client.submit([request(0)] * 8)

    assert agent.begun == []


async def test_a_row_that_no_agent_takes_never_runs(opened: Opener) -> None:
    strange = request(0, group_id="g")
    strange.row["agent_ref"] = {"name": "nobody"}  # type: ignore[index]
    async with opened(lambda *_: 1.0) as (client, agent):
        with pytest.raises((BadInput, IncompleteRollouts), match="no agent is named 'nobody'"):
            await client.submit([strange]).gather()

    assert agent.begun == []


# Failures


async def test_a_failed_rollout_raises_and_stops_what_still_runs(opened: Opener) -> None:
    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 0:
            return 1.0
        if key.task_id == 1:
            raise VerifierError("it raised")
        await asyncio.Event().wait()
        return 1.0

    async with opened(script) as (client, agent):
        batch = client.submit(requests(4))
        with pytest.raises(IncompleteRollouts) as raised:
            await batch.gather()
        await batch.aclose()
        assert agent.running == 0

    error = raised.value
    assert (error.requested, error.received) == (4, 1)
    assert error.missing == (Key(1, 0), Key(2, 0), Key(3, 0))
    assert error.failures == {"verifier_error": 1, "unfinished": 2}
    assert "it raised" in error.cause.sentence
    assert [outcome.key for outcome in error.completed] == [Key(0, 0)]
    assert batch.summary().adds_up


async def test_drop_group_drops_the_group_of_a_failed_rollout(opened: Opener) -> None:
    policy = OnIncomplete.DROP_GROUP
    async with opened(failing(Key(1, 2)), on_incomplete=policy) as (client, _):
        groups = [group async for group in client.submit(requests(3, 4)).groups(4)]

    assert sorted(group.group_id for group in groups) == [0, 2]
    assert all(len(group.completed) == 4 for group in groups)


async def test_mask_keeps_the_size_of_a_group(opened: Opener) -> None:
    async with opened(failing(Key(0, 1)), on_incomplete=OnIncomplete.MASK) as (client, _):
        (group,) = [group async for group in client.submit(requests(1, 4)).groups(4)]

    assert [type(outcome) for outcome in group.outcomes] == [Completed, Failed, *[Completed] * 2]
    assert group.rewards == [1.0, 1.0, 1.0]


async def test_a_submission_may_have_policies_of_its_own(opened: Opener) -> None:
    async with opened(failing(Key(0, 0)), min_fraction=1.0) as (client, _):
        lenient = client.submit(requests(4), on_incomplete="mask", min_fraction=0.5)
        outcomes = await lenient.gather()
        with pytest.raises(IncompleteRollouts):
            await client.submit(requests(4)).gather()

    assert [isinstance(outcome, Completed) for outcome in outcomes] == [False, True, True, True]


@pytest.mark.parametrize("policy", list(OnIncomplete))
async def test_no_policy_turns_an_empty_batch_into_an_empty_epoch(
    opened: Opener, policy: OnIncomplete
) -> None:
    async with opened(failing(Key(0, 0), Key(0, 1)), on_incomplete=policy) as (client, _):
        with pytest.raises(IncompleteRollouts):
            _ = [group async for group in client.submit(requests(1, 2)).groups(2)]


async def test_log_probs_that_are_none_end_the_batch(opened: Opener) -> None:
    def script(key: Key, _: int) -> Any:
        return answer(1.0, said(logprobs=[math.nan])) if key.task_id == 1 else 1.0

    async with opened(script) as (client, _):
        with pytest.raises(InvalidLogprobs) as raised:
            await client.submit(requests(3)).gather()

    assert (raised.value.key, raised.value.turn, raised.value.position) == (Key(1, 0), 0, 0)


async def test_a_batch_without_any_token_ids_is_an_error(opened: Opener) -> None:
    async with opened(lambda *_: answer(1.0, said(None))) as (client, _):
        with pytest.raises(NoTokenIds):
            await client.submit(requests(3)).gather()


async def test_a_rollout_may_have_a_deadline_of_its_own(opened: Opener) -> None:
    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            await asyncio.Event().wait()
        return 1.0

    hurried = [request(0), request(1, deadline_s=0.2)]
    async with opened(script, on_incomplete="mask") as (client, _):
        outcome = (await client.submit(hurried).gather())[1]

    assert isinstance(outcome, Failed)
    assert outcome.failure is FailureClass.TIMEOUT


# Cancelling and pausing


async def test_what_the_trainer_cancels_ends_as_cancelled_and_is_not_missing(
    opened: Opener,
) -> None:
    async def waits(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            await asyncio.Event().wait()
        return 1.0

    async with opened(waits) as (client, agent):
        batch = client.submit(requests(3))
        await agent.until_begun(3)
        batch.cancel([Key(1, 0)])
        outcome = (await batch.gather())[1]

    assert isinstance(outcome, Failed)
    assert outcome.failure is FailureClass.CANCELLED


async def test_cancelling_what_was_not_asked_for_is_refused(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, _), client.submit(requests(1)) as batch:
        with pytest.raises(InputDataError, match="7:0"):
            batch.cancel([Key(7, 0)])


async def test_leaving_early_cancels_and_awaits_everything(opened: Opener) -> None:
    async def script(key: Key, attempt: int) -> float:
        if key.task_id:
            await asyncio.Event().wait()
        return 1.0

    async with opened(script) as (client, agent):
        async with client.submit(requests(9)) as batch:
            await anext(aiter(batch))
        assert agent.running == 0

    assert batch.summary().failed == {"cancelled": 8}
    assert batch.summary().adds_up


async def test_a_paused_client_starts_nothing_until_it_is_resumed(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, agent):
        client.pause()
        batch = client.submit(requests(2))
        health = await client.health()
        assert (health.ok, health.paused, agent.begun) == (True, True, [])
        client.resume()
        outcomes = await batch.gather()

    assert len(outcomes) == len(agent.begun) == 2


async def test_a_slow_consumer_slows_the_starting(opened: Opener) -> None:
    settings = {"in_flight": 2, "max_waiting": 3}
    async with opened(lambda *_: 1.0, **settings) as (client, agent):
        batch = client.submit(requests(40))
        await agent.until_begun(4)
        for _ in range(50):
            await asyncio.sleep(0)
        begun = len(agent.begun)
        outcomes = [outcome async for outcome in batch]

    assert begun <= 6
    assert len(outcomes) == 40


# Weights


async def test_weight_versions_do_not_go_back(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, _):
        await client.set_weight_version(3)
        with pytest.raises(ConfigError, match="goes back from 3 to 2"):
            await client.set_weight_version(2)

        assert (await client.health()).weight_version == 3


async def test_an_outcome_has_the_version_of_its_weights(opened: Opener) -> None:
    async with opened(lambda *_: 1.0) as (client, _):
        await client.set_weight_version(5)
        (outcome,) = await client.submit([request()]).gather()

    assert isinstance(outcome, Completed)
    assert (outcome.weights_start, outcome.weights_end) == (5, 5)


async def test_what_is_older_than_the_limit_is_stale(opened: Opener) -> None:
    gate = asyncio.Event()

    async def waits(key: Key, attempt: int) -> float:
        await gate.wait()
        return 1.0

    async with opened(waits, max_staleness=0, in_flight=1) as (client, agent):
        await client.set_weight_version(0)
        batch = client.submit(requests(2))
        await agent.until_begun(1)
        await client.set_weight_version(1)
        gate.set()
        old, new = await batch.gather()

    assert isinstance(old, Failed)
    assert old.failure is FailureClass.STALE
    assert isinstance(new, Completed)
