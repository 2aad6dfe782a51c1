"""How much of a batch must come back, by class of failure, and what an error keeps of the rest."""

import asyncio
import contextlib
import pickle
from typing import Any

import pytest
from outcome_samples import completed
from training_world import AGENT, ToldAgent, ToldServers, request, requests, trainer

from palestra.errors import ConfigError, InputDataError, JudgeFailure, RowError, VerifierError
from palestra.fleet import ChildExit
from palestra.training import (
    ClientSettings,
    Completed,
    Failed,
    FailureClass,
    IncompleteRollouts,
    Key,
    OnIncomplete,
    OnStale,
    SyncRolloutClient,
    Turn,
)
from palestra.training.adapters.nemo_rl import rollout_results
from palestra.training.adapters.ray import requests_of

pytestmark = pytest.mark.anyio

KILLED = ChildExit(AGENT, -9, (), pid=4711)
TOLERANT = [policy for policy in OnIncomplete if policy is not OnIncomplete.RAISE]
BY_CLASS = {FailureClass.JUDGE_ERROR: "mask", FailureClass.DATA_ERROR: "return_partial"}


async def fails(key: Key, attempt: int) -> float:
    """The first rollout of task 1 fails for its judge, of task 2 for its data."""
    if key == Key(1, 0):
        raise JudgeFailure("no verdict")
    if key == Key(2, 0):
        raise RowError("no such field")
    return 1.0


# A policy for each class


async def test_each_class_of_failure_has_a_policy_of_its_own() -> None:
    async with trainer(fails, on_incomplete=BY_CLASS) as (client, *_):
        groups = [group async for group in client.submit(requests(3, 2)).groups(2)]

    sizes = {group.group_id: (len(group.outcomes), len(group.completed)) for group in groups}
    assert sizes == {0: (2, 2), 1: (2, 1), 2: (1, 1)}


async def test_a_class_that_a_mapping_does_not_name_raises() -> None:
    async with trainer(fails, on_incomplete={FailureClass.JUDGE_ERROR: "mask"}) as (client, *_):
        with pytest.raises(IncompleteRollouts, match="no such field"):
            await client.submit(requests(3, 2)).gather()


async def test_only_groups_that_lost_a_member_to_its_class_are_dropped() -> None:
    policies = {FailureClass.JUDGE_ERROR: "drop_group", FailureClass.DATA_ERROR: "mask"}
    async with trainer(fails, on_incomplete=policies) as (client, *_):
        found = await client.submit(requests(3, 2)).gather()

    left = [outcome.key for outcome in found if isinstance(outcome, Completed)]
    assert left == [Key(0, 0), Key(0, 1), Key(2, 1)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"infrared": "mask"}, r"names 'infrared'; it may name .*timeout.*server_died, stuck"),
        (
            {"timeout": "ignore"},
            r"'timeout'\] is 'ignore'; it must be one of raise, drop_group, mask",
        ),
        (["mask"], r"on_incomplete is \['mask'\]; it must be one of raise"),
    ],
)
def test_an_unknown_class_or_policy_is_named_with_the_valid_ones(words: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ClientSettings(on_incomplete=words).checked()


def test_settings_with_a_policy_for_each_class_survive_pickling() -> None:
    settings = ClientSettings(on_incomplete=BY_CLASS).checked()

    assert pickle.loads(pickle.dumps(settings)).policies == settings.policies


# The least share


def fails_below(count: int) -> Any:
    def script(key: Key, attempt: int) -> float:
        if isinstance(key.task_id, int) and key.task_id < count:
            raise VerifierError("it raised")
        return 1.0

    return script


@pytest.mark.parametrize("policy", TOLERANT)
@pytest.mark.parametrize(("lost", "enough"), [(2, True), (3, False)])
async def test_less_than_the_least_share_raises_under_every_policy(
    policy: OnIncomplete, lost: int, enough: bool
) -> None:
    async with trainer(fails_below(lost), on_incomplete=policy, min_fraction=0.9) as (client, *_):
        handle = client.submit(requests(20))
        caught = contextlib.nullcontext() if enough else pytest.raises(IncompleteRollouts)
        with caught as raised:
            assert len(await handle.gather()) == 20

    assert raised is None or raised.value.least == 18
    assert handle.summary().adds_up


async def test_a_dropped_group_counts_as_lost_with_all_its_members() -> None:
    async with trainer(fails, on_incomplete=OnIncomplete.DROP_GROUP, min_fraction=0.5) as (
        client,
        *_,
    ):
        with pytest.raises(IncompleteRollouts) as raised:
            _ = [group async for group in client.submit(requests(3, 4)).groups(4)]

    assert raised.value.least == 6


async def test_what_the_trainer_cancels_is_not_lost() -> None:
    async def script(key: Key, attempt: int) -> float:
        if key.task_id:
            await asyncio.Event().wait()
        return 1.0

    async with trainer(script, on_incomplete=OnIncomplete.MASK, min_fraction=1.0) as (client, *_):
        handle = client.submit(requests(5))
        await handle.next()
        handle.cancel([Key(task, 0) for task in range(1, 5)])

        assert len([outcome async for outcome in handle]) == 4


def test_the_default_share_is_nine_tenths() -> None:
    assert ClientSettings().min_fraction == 0.9


# Outages


@pytest.mark.parametrize("policy", TOLERANT)
async def test_a_server_that_died_raises_under_every_policy(policy: OnIncomplete) -> None:
    async def waits(key: Key, attempt: int) -> float:
        if key.task_id:
            await asyncio.Event().wait()
        return 1.0

    async with trainer(waits, on_incomplete=policy) as (client, agent, servers):
        handle = client.submit(requests(4))
        await agent.until_begun(4)
        servers.dies(KILLED)
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts) as raised:
                await handle.gather()

    assert (raised.value.received, raised.value.cause.signal) == (1, "SIGKILL")


async def test_a_policy_for_a_server_that_died_must_name_it() -> None:
    async def waits(key: Key, attempt: int) -> float:
        if key.task_id:
            await asyncio.Event().wait()
        return 1.0

    async with trainer(waits, on_incomplete={"server_died": "mask"}) as (client, agent, servers):
        handle = client.submit(requests(4, 2))
        await agent.until_begun(8)
        servers.dies(KILLED)
        found = await handle.gather()

    assert [type(outcome) for outcome in found] == [*[Completed] * 2, *[Failed] * 6]


# What an error keeps


async def test_an_error_keeps_every_answer_that_was_gathered() -> None:
    released = asyncio.Event()

    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 3:
            await released.wait()
            raise RowError("400")
        return float(key.task_id)

    async with trainer(script) as (client, *_):
        handle = client.submit(requests(8))
        gathering = asyncio.create_task(handle.gather())
        async with asyncio.timeout(20):
            while handle.summary().completed < 7:  # noqa: ASYNC110  # a summary has no event
                await asyncio.sleep(0)
            released.set()
            with pytest.raises(IncompleteRollouts) as raised:
                await gathering

    error = pickle.loads(pickle.dumps(raised.value))
    assert [outcome.reward for outcome in error.completed] == [0, 1, 2, 4, 5, 6, 7]
    assert [outcome.task_id for outcome in error.outcomes] == list(range(8))
    assert error.completed[0].raw.plain()["reward"] == 0.0


async def test_an_error_has_what_was_not_handed_out_before() -> None:
    async with trainer(fails, in_flight=1) as (client, *_):
        handle = client.submit([request(0), request(1)])
        first = await handle.next()
        with pytest.raises(IncompleteRollouts) as raised:
            _ = [outcome async for outcome in handle]

    assert first is not None
    assert first.key == Key(0, 0)
    assert Key(1, 0) in [outcome.key for outcome in raised.value.outcomes]
    assert first.key not in [outcome.key for outcome in raised.value.outcomes]


async def test_an_error_has_the_members_of_groups_that_were_not_whole_yet() -> None:
    async with trainer(fails, in_flight=1) as (client, *_):
        asked = [*requests(1, 2), request(1, 1), request(1, 0)]
        with pytest.raises(IncompleteRollouts) as raised:
            _ = [group async for group in client.submit(asked).groups(2)]

    assert [outcome.key for outcome in raised.value.completed] == [Key(1, 1)]


# An empty batch, and weights that nobody knows


def test_the_sync_twin_and_adapters_refuse_what_is_empty() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    with (
        SyncRolloutClient(lambda: contextlib.nullcontext(ToldServers(agent))) as client,
        pytest.raises(InputDataError, match="is empty"),
    ):
        client.submit(iter(()))
    with pytest.raises(InputDataError, match="is empty"):
        rollout_results([], pad_id=0)
    with pytest.raises(InputDataError, match="is empty"):
        requests_of([])


@pytest.mark.parametrize("on_stale", [OnStale.DROP, OnStale.ABORT])
async def test_rollouts_begun_before_the_first_version_are_the_oldest(on_stale: OnStale) -> None:
    go_on = asyncio.Event()

    async def waits(key: Key, attempt: int) -> float:
        await go_on.wait()
        return 1.0

    async with trainer(waits, max_staleness=0, on_stale=on_stale) as (client, agent, _):
        handle = client.submit(requests(3))
        await agent.until_begun(3)
        await client.set_weight_version(1)
        go_on.set()
        with pytest.raises(IncompleteRollouts):
            await handle.gather()

    assert handle.summary().failed == {"stale": 3}


def test_a_turn_of_an_unknown_version_is_as_old_as_its_attempt() -> None:
    turns = (Turn([1], [2], [-0.5], weights_start=5), Turn([3], [4], [-0.5]))

    assert completed(*turns, weights_start=4).oldest_weights == 4
    assert completed(*turns, weights_start=None).oldest_weights is None


async def test_a_policy_of_a_submission_that_is_none_is_refused() -> None:
    async with trainer(fails) as (client, agent, _):
        with pytest.raises(ConfigError):
            client.submit(requests(1), on_incomplete="ignore")

    assert agent.begun == []
