"""Groups without spread of reward are replaced by fresh tasks, whatever ends first."""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from simulated_source import Rollout, SimulatedSource
from training_world import ToldAgent, ToldServers, request, trainer

from palestra.errors import ConfigError, InputDataError, VerifierError
from palestra.training import (
    ClientSettings,
    DynamicSampling,
    FailureClass,
    Group,
    GroupBatch,
    NotEnoughSpread,
    OverSampling,
    RolloutRequest,
    SyncRolloutClient,
    dynamic_sample,
    task_queue,
)

pytestmark = pytest.mark.anyio

TASKS, SIZE, GROUPS = 5000, 8, 64
ROWS: list[dict[str, Any]] = [
    {"responses_create_params": {"input": f"question {task}"}} for task in range(TASKS)
]


def solve_rate(task: int | str) -> float:
    """Most tasks are always or never solved."""
    return random.Random(f"rate/{task}").choice([0.0, 0.0, 0.5, 1.0])


def reward_of(item: RolloutRequest) -> float:
    return float(random.Random(f"{item.key}/{item.seed}").random() < solve_rate(item.task_id))


def player(order: int) -> Any:
    """Rollouts with the same rewards; `order` decides which end first."""

    def play(item: RolloutRequest) -> Rollout:
        return random.Random(f"{order}/{item.key}").expovariate(1.0), reward_of(item)

    return play


def rule(**fields: Any) -> DynamicSampling:
    usual: dict[str, Any] = {
        "groups": GROUPS,
        "members": OverSampling(needed=SIZE),
        "max_fresh_groups": TASKS,
    }
    return DynamicSampling(**usual | fields)


async def tasks_of(order: int, seed: int = 1) -> tuple[list[int | str], int]:
    """Which tasks a batch returns, and how many of them were fresh."""
    queue = task_queue(ROWS, SIZE, seed=seed)
    async with dynamic_sample(SimulatedSource(player(order)), queue, rule()) as batch:
        groups = await batch.gather()
    assert all(len(group.outcomes) == SIZE for group in groups)
    assert all(len(set(group.rewards)) == 2 for group in groups)
    return sorted(group.group_id for group in groups), batch.report.fresh_groups  # type: ignore[type-var]


def expected(seed: int) -> tuple[list[int], int]:
    """The same by hand: the queue up to the group that makes the batch full."""
    full: list[int] = []
    for used, group in enumerate(task_queue(ROWS, SIZE, seed=seed), start=1):
        if len({reward_of(item) for item in group}) == 2:
            full.append(int(group[0].task_id))
        if len(full) == GROUPS:
            return sorted(full), used - GROUPS
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_of_5000_tasks_full_groups_come_back_whatever_ends_first(seed: int) -> None:
    assert len({solve_rate(task) for task in range(TASKS)}) == 3

    batches = [await tasks_of(order, seed) for order in range(3)]

    assert batches == [expected(seed)] * 3


@pytest.mark.slow
async def test_the_queue_goes_on_with_the_next_batch() -> None:
    queue = task_queue(ROWS, SIZE, seed=1)
    source = SimulatedSource(player(0))
    names: list[int | str] = []
    for _ in range(3):
        async with dynamic_sample(source, queue, rule()) as batch:
            names += [group.group_id async for group in batch]

    assert len(set(names)) == len(names) == 3 * GROUPS


@pytest.mark.slow
async def test_the_books_of_a_batch_add_up() -> None:
    queue = task_queue(ROWS, SIZE, seed=1)
    async with dynamic_sample(SimulatedSource(player(0)), queue, rule()) as batch:
        await batch.gather()

    report = batch.report
    assert report.submitted_groups == GROUPS + report.fresh_groups
    assert report.fresh_groups == report.without_spread
    assert report.returned_groups == GROUPS
    assert batch.metrics()["rollouts/requested"] == SIZE * report.submitted_groups


async def test_the_cap_ends_a_batch_with_what_there_is() -> None:
    groups: list[Group] = []

    async def consume(batch: GroupBatch) -> None:
        async for group in batch:
            groups.append(group)  # noqa: PERF401  # those before the error count

    async with opened(task_queue(ROWS, SIZE, seed=1), max_fresh_groups=10) as batch:
        with pytest.raises(NotEnoughSpread) as caught:
            await consume(batch)

    error = caught.value
    assert (error.requested_groups, error.fresh_groups, error.queue_ended) == (GROUPS, 10, False)
    assert error.returned_groups == len(groups) == GROUPS + 10 - batch.report.without_spread


async def test_a_queue_that_ends_is_named() -> None:
    async with opened(task_queue(ROWS[:70], SIZE)) as batch:
        with pytest.raises(NotEnoughSpread) as caught:
            await batch.gather()

    assert (caught.value.queue_ended, caught.value.fresh_groups) == (True, 6)


async def test_a_group_that_lost_members_is_replaced_where_the_policy_allows_it() -> None:
    def play(item: RolloutRequest) -> Rollout:
        failed = item.task_id == 3 and item.rollout_index == 0
        return 1.0, FailureClass.VERIFIER_ERROR if failed else float(item.rollout_index == 1)

    lossy = OverSampling(needed=SIZE, on_incomplete={"verifier_error": "drop_group"})
    some = rule(groups=4, members=lossy, max_fresh_groups=1)
    queue = ([request(task, index) for index in range(SIZE)] for task in range(9))
    async with dynamic_sample(SimulatedSource(play), queue, some) as batch:
        groups = await batch.gather()

    assert [group.group_id for group in groups] == [0, 1, 2, 4]
    assert (batch.report.short_groups, batch.report.fresh_groups) == (1, 1)


async def test_fresh_groups_run_on_a_real_client_too() -> None:
    def script(key: Any, attempt: int) -> float:
        if key.task_id == 1 and key.rollout_index == 0:
            raise VerifierError("it raised")
        return float(key.task_id % 2 and key.rollout_index == 1)

    spare = OverSampling(needed=2, on_incomplete="drop_group")
    queue = ([request(task, index) for index in range(3)] for task in range(9))
    async with trainer(script) as (client, agent, _):
        some = rule(groups=2, members=spare, max_fresh_groups=7)
        async with dynamic_sample(client, queue, some) as batch:
            groups = await batch.gather()

    assert len(groups) == 2
    assert all(len(set(group.rewards)) == 2 for group in groups)
    assert len(agent.begun) <= 3 * batch.report.submitted_groups


def opened(queue: Iterator[Any], **fields: Any) -> GroupBatch:
    return dynamic_sample(SimulatedSource(player(0)), queue, rule(**fields))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"groups": 0}, "groups is 0"),
        ({"max_fresh_groups": -1}, "max_fresh_groups is -1"),
        ({"least_spread": -0.5}, "least_spread is -0.5"),
        ({"members": 8}, "members is 8"),
        ({"members": OverSampling(needed=-1)}, "needed is -1"),
    ],
)
async def test_an_invalid_rule_is_one_error(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        opened(task_queue(ROWS, SIZE), **fields)


async def test_a_queue_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputDataError, match="the queue has 3 groups, and 64 are to be returned"):
        opened(task_queue(ROWS[:3], SIZE))


def test_groups_of_one_member_are_refused() -> None:
    with pytest.raises(ConfigError, match="a group of one rollout has no spread"):
        rule(members=OverSampling(needed=1)).checked()


async def test_a_task_that_comes_twice_is_refused() -> None:
    groups = [[request(task, index) for index in range(SIZE)] for task in (0, 1, 0)]

    with pytest.raises(InputDataError, match="returned group 0 a second time"):
        opened(iter(groups), groups=3)


def test_a_queue_is_the_same_for_the_same_seed() -> None:
    first, second, third = (list(task_queue(ROWS[:50], 2, seed=seed)) for seed in (1, 1, 2))

    assert first == second != third
    seeds = [item.seed for group in first for item in group]
    assert len(set(seeds)) == 100
    assert sorted(group[0].task_id for group in first) == list(range(50))  # type: ignore[type-var]


def test_a_trainer_without_async_samples_the_same_groups() -> None:
    def servers() -> Any:
        agent = ToldAgent(lambda key, _: float(key.task_id in {1, 4} and key.rollout_index == 0))
        return contextlib.nullcontext(ToldServers(agent))

    usual = rule(groups=2, members=OverSampling(needed=2), max_fresh_groups=9)
    with SyncRolloutClient(servers, ClientSettings(memory_reserve=0.0)) as client:
        with client.dynamic_sample(task_queue(ROWS[:6], 2), usual) as batch:
            groups = list(batch)
            metrics, report = batch.metrics(), batch.report
        with client.over_sample([request(0, 0), request(0, 1)], OverSampling(needed=1)) as spared:
            (single,) = spared.gather()

    assert {group.group_id for group in groups} == {1, 4}
    assert metrics["sampling/fresh_groups"] == report.fresh_groups
    assert len(single.outcomes) == 1


async def test_a_group_that_became_old_while_it_waited_is_replaced() -> None:
    source = SimulatedSource(lambda item: (1.0, float(item.rollout_index)))
    source.settings = ClientSettings(max_staleness=0)
    await source.set_weight_version(0)
    queue = task_queue(ROWS, 2)
    three = rule(groups=3, members=OverSampling(needed=2), max_fresh_groups=2)
    async with dynamic_sample(source, queue, three) as batch:
        groups = aiter(batch)
        first = await anext(groups)
        for _ in range(100):  # until all six rollouts have ended
            await asyncio.sleep(0)
        await source.set_weight_version(1)
        others = [group async for group in groups]

    assert [member.weights_start for member in first.completed] == [0, 0]
    assert [member.weights_start for group in others for member in group.completed] == [1] * 4
    assert (batch.report.stale_groups, batch.report.returned_groups) == (2, 3)
