"""What is left of a rollout that went on over a change of the weights."""

import asyncio

import pytest
from contract_world import CLIENTS, Opener
from outcome_samples import completed
from training_world import requests

from palestra.training import Completed, Key, Turn, batch_metrics
from palestra.training.staleness import recent_turns_only

pytestmark = pytest.mark.anyio


def rollout(*versions: int | None) -> Completed:
    return completed(*(Turn([1], [2], [-0.5], version, version) for version in versions))


def trained(outcome: Completed) -> list[bool]:
    return [turn.is_trained for turn in outcome.turns]


def test_only_turns_of_recent_weights_are_trained_on() -> None:
    marked = recent_turns_only(rollout(None, 5, 6, 7), 7, 1)

    assert trained(marked) == [False, False, True, True]
    assert not marked.masked
    assert batch_metrics([marked])["tokens/trainable"] == 2


def test_a_rollout_without_a_recent_turn_is_masked_and_says_why() -> None:
    marked = recent_turns_only(rollout(4, 5), 7, 1)

    assert marked.masked
    assert marked.mask_reason.startswith("stale: its oldest tokens are of weight version 5")


def test_a_recent_turn_with_invalid_log_probs_does_not_count_as_one_to_train_on() -> None:
    outcome = completed(Turn([1], [2], [-0.5], 4, 4), Turn([3], [4], [], 7, 7))

    assert recent_turns_only(outcome, 7, 1).masked


def test_marking_again_changes_nothing() -> None:
    once = recent_turns_only(rollout(5, 7), 7, 1)

    assert recent_turns_only(once, 7, 1) is once
    assert trained(recent_turns_only(once, 9, 1)) == [False, False]


def test_without_a_limit_every_turn_is_trained_on() -> None:
    whole = rollout(1, 9)

    assert recent_turns_only(whole, 9, None) is whole


@pytest.mark.parametrize("opened", CLIENTS.values(), ids=CLIENTS)
async def test_on_every_client_a_rollout_that_became_old_goes_on(opened: Opener) -> None:
    gate = asyncio.Event()

    async def waits(key: Key, attempt: int) -> float:
        await gate.wait()
        return 1.0

    async with opened(waits, max_staleness=0, on_stale="continue") as (client, agent):
        await client.set_weight_version(0)
        batch = client.submit(requests(1))
        await agent.until_begun(1)
        await client.set_weight_version(1)
        gate.set()
        (outcome,) = await batch.gather()

    assert isinstance(outcome, Completed)
    assert (outcome.weights_start, outcome.weights_end) == (0, 1)
    assert outcome.masked  # its only turn is old
