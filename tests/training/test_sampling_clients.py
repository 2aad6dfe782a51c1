"""Groups are sampled, and batches measured, in the same way on every client."""

import pytest
from contract_world import CLIENTS, Opener
from training_world import requests

from palestra.errors import VerifierError
from palestra.training import (
    DynamicSampling,
    Fault,
    Key,
    OnIncomplete,
    OverSampling,
    batch_metrics,
    dynamic_sample,
    over_sample,
    task_queue,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("opened", CLIENTS.values(), ids=CLIENTS),
]
ROWS = [{"responses_create_params": {"input": f"question {task}"}} for task in range(6)]


def first_fails(key: Key, attempt: int) -> float:
    if key.rollout_index == 0:
        raise VerifierError("it raised")
    return float(key.rollout_index % 2)


async def test_a_failed_member_is_replaced_by_a_spare(opened: Opener) -> None:
    async with (
        opened(first_fails) as (client, _),
        over_sample(client, requests(3, 4), OverSampling(needed=3)) as batch,
    ):
        groups = await batch.gather()

    members = [[outcome.rollout_index for outcome in group.outcomes] for group in groups]
    assert members == [[1, 2, 3]] * 3
    assert all(group.is_valid for group in groups)


async def test_fresh_tasks_replace_groups_without_spread(opened: Opener) -> None:
    def script(key: Key, attempt: int) -> float:
        return float(key.task_id in {1, 4} and key.rollout_index == 0)

    rule = DynamicSampling(groups=2, members=OverSampling(needed=2), max_fresh_groups=4)
    async with (
        opened(script) as (client, _),
        dynamic_sample(client, task_queue(ROWS, 2), rule) as batch,
    ):
        groups = await batch.gather()

    assert {group.group_id for group in groups} == {1, 4}
    assert batch.report.fresh_groups == batch.report.without_spread


async def test_the_metrics_agree_with_the_submissions_counts(opened: Opener) -> None:
    async with opened(first_fails, on_incomplete="mask") as (client, _):
        batch = client.submit(requests(3, 4))
        outcomes = await batch.gather()

    metrics = batch_metrics(outcomes)
    assert metrics["failed/verifier_error"] == 3
    assert metrics == batch_metrics(outcomes, batch.summary())
    assert {outcome.agent for outcome in outcomes} == {"agent"}


async def test_a_group_says_how_many_members_were_left_out(opened: Opener) -> None:
    policy = OnIncomplete.RETURN_PARTIAL
    async with opened(first_fails, on_incomplete=policy) as (client, _):
        groups = [group async for group in client.submit(requests(1, 4)).groups(4)]

    assert [fault.fault for fault in groups[0].faults] == [Fault.LEFT_OUT]
    assert len(groups[0].valid()) == 3
