"""More members than needed: who is returned does not depend on how long a rollout takes."""

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats
from simulated_source import Rollout, SimulatedSource
from training_world import AGENT, requests, trainer

from palestra.errors import ConfigError, InputDataError, VerifierError
from palestra.fleet import ChildExit
from palestra.training import (
    Completed,
    FailureClass,
    Group,
    IncompleteRollouts,
    Key,
    OverSampling,
    RolloutRequest,
    SamplingReport,
    over_sample,
)

pytestmark = pytest.mark.anyio

GROUPS, MEMBERS, NEEDED = 300, 8, 7
SIGMA = 1.0
LENGTHS = stats.lognorm(SIGMA, scale=math.exp(5))
"""Lengths as of answers: a long tail."""


def length_of(item: RolloutRequest, seed: int = 0) -> float:
    return random.Random(f"{seed}/{item.key}").lognormvariate(5, SIGMA)


def play(item: RolloutRequest) -> Rollout:
    """A rollout takes a time in proportion to its length."""
    return length_of(item), 1.0


def slow_fail(item: RolloutRequest) -> Rollout:
    """The longest twentieth never ends in time."""
    length = length_of(item)
    limit = float(LENGTHS.ppf(0.95))
    return min(length, limit), 1.0 if length < limit else FailureClass.TIMEOUT


async def sampled(
    rule: OverSampling, script: Any = play, groups: int = GROUPS
) -> tuple[list[Group], SamplingReport]:
    source = SimulatedSource(script)
    async with over_sample(source, requests(groups, MEMBERS), rule) as batch:
        return await batch.gather(), batch.report


def lengths_in(groups: Sequence[Group]) -> list[float]:
    keys = [outcome.key for group in groups for outcome in group.outcomes]
    return [length_of(RolloutRequest(row={}, task_id=t, rollout_index=i)) for t, i in keys]


@pytest.mark.slow
async def test_lengths_are_those_of_all_rollouts() -> None:
    groups, report = await sampled(OverSampling(needed=NEEDED))

    lengths = lengths_in(groups)
    assert {len(group.outcomes) for group in groups} == {NEEDED}
    assert stats.kstest(lengths, LENGTHS.cdf).pvalue > 0.01
    assert report.bias_bound == 0.0


async def test_the_first_to_end_would_be_shorter_and_the_test_would_see_it() -> None:
    everything = [play(item)[0] for item in requests(GROUPS, MEMBERS)]
    of_groups = [everything[n : n + MEMBERS] for n in range(0, len(everything), MEMBERS)]
    first = [length for group in of_groups for length in sorted(group)[:NEEDED]]

    assert stats.kstest(first, LENGTHS.cdf).pvalue < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.02, 0.05])
async def test_stopping_early_keeps_within_its_bound(fraction: float) -> None:
    random_subset, _ = await sampled(OverSampling(needed=NEEDED))
    groups, report = await sampled(OverSampling(needed=NEEDED, max_slow_fraction=fraction))

    distance = stats.ks_2samp(lengths_in(groups), lengths_in(random_subset)).statistic
    assert 0 < distance <= report.bias_bound <= fraction
    assert report.cancelled >= report.replaced_slow > 0
    assert len(groups) == GROUPS


@pytest.mark.slow
async def test_failures_are_replaced_and_the_bound_says_how_many() -> None:
    random_subset, _ = await sampled(OverSampling(needed=NEEDED))
    rule = OverSampling(needed=NEEDED, on_incomplete="drop_group")
    groups, report = await sampled(rule, slow_fail)

    distance = stats.ks_2samp(lengths_in(groups), lengths_in(random_subset)).statistic
    assert report.replaced_failed > 0
    assert report.short_groups == GROUPS - len(groups) > 0
    assert distance <= report.bias_bound


async def test_spares_are_cancelled_when_their_group_is_decided() -> None:
    async def script(key: Key, attempt: int) -> float:
        if key not in wanted:
            await asyncio.Event().wait()
        return 1.0

    async with trainer(script) as (client, agent, _):
        async with over_sample(client, requests(1, 4), OverSampling(needed=3)) as batch:
            drawn = batch._first.drawing.groups[0].order[:3]
            wanted = set(drawn)
            groups = [group async for group in batch]

        assert agent.running == 0
    assert [outcome.key for outcome in groups[0].outcomes] == sorted(drawn)
    assert (batch.report.cancelled, batch.report.returned_groups) == (1, 1)


async def test_the_same_seed_draws_the_same_members() -> None:
    first, _ = await sampled(OverSampling(needed=3, seed=5), groups=20)
    second, _ = await sampled(OverSampling(needed=3, seed=5), groups=20)
    third, _ = await sampled(OverSampling(needed=3, seed=6), groups=20)

    assert lengths_in(first) == lengths_in(second) != lengths_in(third)


async def test_a_group_with_too_few_left_raises_what_is_missing() -> None:
    def script(key: Key, attempt: int) -> float:
        if key.rollout_index < 2:
            raise VerifierError("it raised")
        return 1.0

    async with (
        trainer(script) as (client, _, _),
        over_sample(client, requests(1, 4), OverSampling(needed=3)) as batch,
    ):
        with pytest.raises(IncompleteRollouts) as caught:
            await batch.gather()

    assert {Key(0, 0), Key(0, 1)} <= set(caught.value.missing)
    assert caught.value.failures["verifier_error"] == 2
    assert caught.value.requested == 4 == caught.value.received + len(caught.value.missing)


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_group_with_too_few_left_raises_whichever_group_ends_last(failing: int) -> None:
    def play(item: RolloutRequest) -> Rollout:
        failed = item.task_id == failing and item.rollout_index < 2
        return 1.0 + int(item.task_id), FailureClass.VERIFIER_ERROR if failed else 1.0

    with pytest.raises(IncompleteRollouts) as caught:
        await sampled_of_four(play)

    assert caught.value.failures["verifier_error"] >= 1


async def sampled_of_four(play: Any) -> list[Group]:
    rule = OverSampling(needed=3)
    async with over_sample(SimulatedSource(play), requests(2, 4), rule) as batch:
        return await batch.gather()


async def test_closing_a_batch_ends_the_iteration_of_another_task() -> None:
    async def script(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    async with (
        trainer(script) as (client, agent, _),
        over_sample(client, requests(1, 4), OverSampling(needed=3)) as batch,
    ):
        taking = asyncio.create_task(batch.gather())
        await agent.until_begun(4)
        await batch.aclose()
        _, running = await asyncio.wait({taking}, timeout=10)

    assert not running
    assert isinstance(taking.exception(), IncompleteRollouts)


async def test_a_dead_server_raises_also_where_groups_may_be_dropped() -> None:
    async def script(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    rule = OverSampling(needed=3, on_incomplete="drop_group")
    async with (
        trainer(script) as (client, agent, servers),
        over_sample(client, requests(2, 4), rule) as batch,
    ):
        await agent.until_begun(8)
        servers.dies(ChildExit(AGENT, -9, (), pid=4711))
        with pytest.raises(IncompleteRollouts) as caught:
            await batch.gather()

    assert caught.value.cause.process == AGENT
    assert len(caught.value.outcomes) == 8


async def test_a_batch_of_which_nothing_is_left_is_no_empty_epoch() -> None:
    def script(key: Key, attempt: int) -> float:
        raise VerifierError("it raised")

    rule = OverSampling(needed=3, on_incomplete="drop_group")
    async with (
        trainer(script) as (client, _, _),
        over_sample(client, requests(2, 4), rule) as batch,
    ):
        with pytest.raises(IncompleteRollouts):
            await batch.gather()

    assert batch.report.short_groups == 2


async def test_the_metrics_count_what_was_not_returned_too() -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        async with over_sample(client, requests(5, 4), OverSampling(needed=3)) as batch:
            groups = await batch.gather()
        metrics = batch.metrics()

    assert metrics["rollouts/requested"] == 20
    assert metrics["sampling/returned_groups"] == 5 == len(groups)
    spares = metrics["sampling/unused_spares"] + metrics["failed/cancelled"]
    assert spares == 5
    assert metrics["rollouts/completed"] >= 15
    assert all(isinstance(outcome, Completed) for group in groups for outcome in group.outcomes)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"needed": 0}, "needed is 0"),
        ({"needed": 7, "seed": "x"}, "seed is 'x'"),
        ({"needed": 7, "max_slow_fraction": -0.1}, "max_slow_fraction is -0.1"),
        ({"needed": 7, "on_incomplete": "mask"}, "on_incomplete is mask"),
    ],
)
async def test_an_invalid_rule_is_one_error(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        over_sample(SimulatedSource(play), requests(1, 8), OverSampling(**fields))


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        (1, "a group needs 9 members, and the batch has 8 rollouts in all"),
        (2, "2 groups have fewer than the 9 members that are needed; 0 has 8"),
    ],
)
async def test_groups_that_are_too_small_are_refused_before_anything_runs(
    tasks: int, problem: str
) -> None:
    with pytest.raises(InputDataError, match=problem):
        over_sample(SimulatedSource(play), requests(tasks, 8), OverSampling(needed=9))
