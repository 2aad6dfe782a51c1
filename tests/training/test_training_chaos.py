"""Everything at once: faults, cancellations, new weights, slow takers, a death. The books add up."""

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest
from training_world import AGENT, answer, requests, said, trainer

from palestra.errors import FAILURES, InfraError, JudgeFailure, VerifierError
from palestra.fleet import ChildExit
from palestra.training import (
    Attempts,
    BatchFailed,
    Completed,
    Key,
    OnIncomplete,
    OnStale,
    OnViolation,
    Outage,
)

pytestmark = pytest.mark.anyio

ROWS = int(os.environ.get("TRAINING_ROWS", "10000")) // 20
GROUP = 4


def fate(key: Key, attempt: int) -> Any:
    """What an attempt comes to; some wait for a moment, some cancel themselves."""
    luck = random.Random(f"{key}:{attempt}").random()
    if luck < 0.1:
        raise (InfraError("reset"), JudgeFailure("no verdict"), VerifierError("it raised"))[
            int(luck * 30)
        ]
    if luck < 0.12:
        return answer(1.0, said(logprobs=[None]))
    if luck < 0.14:
        return answer(1.0, said([1], [2]), said([9], [3]))
    return _later(luck)


async def _later(luck: float) -> float:
    for _ in range(int(luck * 20)):
        await asyncio.sleep(0)
    if luck > 0.98:
        asyncio.current_task().cancel()  # type: ignore[union-attr]  # in a task
        await asyncio.sleep(0)
    return luck


SETTINGS: dict[str, Any] = {
    "on_invalid_logprobs": OnViolation.MASK,
    "on_discontinuity": OnViolation.SPLIT,
    "attempts": Attempts(most=dict.fromkeys(FAILURES, 2), first_pause_s=0.0),
    "max_staleness": 2,
    "in_flight": 16,
    "max_waiting": 8,
}


@pytest.mark.parametrize("stale", list(OnStale))
@pytest.mark.parametrize("policy", [p for p in OnIncomplete if p is not OnIncomplete.RAISE])
async def test_whatever_happens_each_key_ends_once(policy: OnIncomplete, stale: OnStale) -> None:
    seen: Counter[Key] = Counter()
    luck = random.Random(f"{policy}{stale}")
    async with trainer(fate, on_incomplete=policy, on_stale=stale, **SETTINGS) as (
        client,
        agent,
        _,
    ):
        async with client.submit(requests(ROWS // GROUP, GROUP)) as handle:
            async for outcome in handle:
                seen[outcome.key] += 1
                if luck.random() < 0.05:
                    await client.set_weight_version(len(seen))
                if luck.random() < 0.05:
                    handle.cancel([Key(luck.randrange(ROWS // GROUP), 0)])
        summary = handle.summary()

    assert len(seen) == summary.requested == ROWS // GROUP * GROUP
    assert set(seen.values()) == {1}
    assert summary.adds_up
    assert summary.pending == 0
    assert agent.running == 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(OnIncomplete))
async def test_a_death_in_the_midst_leaves_nothing_open(policy: OnIncomplete) -> None:
    named = dict.fromkeys((*FAILURES, *Outage), policy)
    async with trainer(fate, on_incomplete=named, **SETTINGS) as (client, agent, servers):
        handle = client.submit(requests(ROWS // GROUP, GROUP))
        came = 0
        try:
            async for outcome in handle:
                came += isinstance(outcome, Completed)
                if came == GROUP:
                    servers.dies(ChildExit(AGENT, -9, ()))
                    came += 1
        except BatchFailed:
            assert policy is OnIncomplete.RAISE
        summary = handle.summary()

    assert summary.adds_up
    assert summary.pending == 0
    assert agent.running == 0
