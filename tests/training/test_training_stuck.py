"""Servers whose process lives and does not go on: batches end, and the blocker is blamed."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from outcome_samples import failed
from training_world import AGENT, ToldServers, requests, trainer

from palestra.errors import ConfigError, DeadlineExceeded
from palestra.fleet import InstanceState, RunningInstance
from palestra.training import (
    ClientSettings,
    Completed,
    Failed,
    FailureClass,
    IncompleteRollouts,
    Key,
    OnIncomplete,
)
from palestra.training.stuck import UNANSWERED, Unresponsive
from palestra.transport import HttpRequest

pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {"stuck_patience_s": 0.0, "stuck_after_s": 0.1}
REASON = "its event loop has not run for 10 s\napp.py:12 verify\nre/__init__.py:167 match"


def stick(servers: ToldServers, state: InstanceState = InstanceState.STUCK) -> None:
    """Have the fleet say that the agent is stuck, or that it goes on."""
    servers.instances[AGENT] = RunningInstance(
        AGENT, "responses_api_agents", "x", "process", state=state, reason=REASON
    )


async def waits(key: Key, attempt: int) -> float:
    if key.task_id:
        await asyncio.Event().wait()
    return 1.0


@pytest.mark.parametrize("policy", OnIncomplete)
async def test_a_stuck_server_raises_under_every_policy_with_its_stack(
    policy: OnIncomplete,
) -> None:
    async with trainer(waits, on_incomplete=policy, **QUICK) as (client, agent, servers):
        handle = client.submit(requests(4))
        await agent.until_begun(4)
        stick(servers)
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts) as raised:
                await handle.gather()
        assert agent.running == 0

    cause = raised.value.cause
    assert (cause.process, raised.value.received) == (AGENT, 1)
    assert cause.stack == ("app.py:12 verify", "re/__init__.py:167 match")
    assert cause.waiting == (Key(1, 0), Key(2, 0), Key(3, 0))
    assert cause.sentence == "server agent is stuck: its event loop has not run for 10 s"


async def test_a_policy_for_stuck_servers_must_name_it() -> None:
    settings = {**QUICK, "on_incomplete": {"stuck": "mask"}}
    async with trainer(waits, **settings) as (client, agent, servers):
        handle = client.submit(requests(3))
        await agent.until_begun(3)
        stick(servers)
        async with asyncio.timeout(20):
            found = await handle.gather()

    assert [type(outcome) for outcome in found] == [Completed, Failed, Failed]
    assert isinstance(found[1], Failed)
    assert found[1].failure is FailureClass.INFRA_ERROR


async def test_health_tells_at_once_which_server_is_stuck() -> None:
    async with trainer(waits) as (client, _, servers):
        stick(servers)
        health = await client.health()

    assert not health.ok
    assert "server agent is stuck" in health.reason
    assert health.servers == {AGENT: "stuck"}


async def test_a_server_that_goes_on_takes_rollouts_again() -> None:
    async with trainer(waits, **QUICK) as (client, agent, servers):
        lost = client.submit(requests(2))
        await agent.until_begun(2)
        stick(servers)
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts):
                await lost.gather()
            with pytest.raises(IncompleteRollouts):
                await client.submit(requests(1)).gather()
            stick(servers, InstanceState.HEALTHY)
            while client._running.pool.halted:  # noqa: ASYNC110  # a pool has no event
                await asyncio.sleep(0.01)
            (found,) = await client.submit(requests(1)).gather()

    assert isinstance(found, Completed)


async def test_a_patient_client_waits_for_a_server_that_goes_on() -> None:
    go_on = asyncio.Event()

    async def script(key: Key, attempt: int) -> float:
        await go_on.wait()
        return 1.0

    patient = {**QUICK, "stuck_patience_s": 60.0}
    async with trainer(script, **patient) as (client, agent, servers):
        handle = client.submit(requests(1))
        await agent.until_begun(1)
        stick(servers)
        for _ in range(10):
            await asyncio.sleep(0.025)
        stick(servers, InstanceState.HEALTHY)
        go_on.set()

        assert isinstance(await handle.next(), Completed)


@pytest.mark.parametrize("patience_s", [-1, "long", None])
def test_a_patience_that_cannot_be_meant_is_refused(patience_s: Any) -> None:
    with pytest.raises(ConfigError, match="stuck_patience_s"):
        ClientSettings(stuck_patience_s=patience_s).checked()


class Silent:
    """Servers with a process that answers nothing; `late_s`: how late this loop hears of that."""

    def __init__(self, *, late_s: float = 0.0) -> None:
        instance = RunningInstance(
            AGENT, "responses_api_agents", "x", "process", ("http://x",), 4711
        )
        self.instances = {AGENT: instance}
        self.client: Any = SimpleNamespace(http=self)
        self.ending = None
        self._late_s = late_s

    async def send(self, request: HttpRequest) -> Any:
        assert request.timeout_s is not None
        time.sleep(self._late_s and request.timeout_s + self._late_s)  # noqa: ASYNC251  # as a step
        raise DeadlineExceeded("no answer")

    async def watch(self) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(("late_s", "is_blamed"), [(0.0, True), (0.5, False)])
async def test_a_silent_server_is_blamed_unless_the_trainers_own_loop_stood_still(
    late_s: float, is_blamed: bool
) -> None:
    timeout = failed()

    blamed = await Unresponsive(Silent(late_s=late_s)).blamed(timeout)

    assert (blamed.message != timeout.message) == is_blamed
    assert ("server agent (process 4711)" in blamed.message) == is_blamed


async def test_a_server_is_stuck_after_ten_questions_without_an_answer() -> None:
    servers = Silent()
    unresponsive = Unresponsive(servers)
    for _ in range(UNANSWERED - 1):
        await unresponsive._ask()
    before = unresponsive.stuck
    await unresponsive._ask()

    assert before is None
    assert unresponsive.stuck is not None
    assert unresponsive.stuck.name == AGENT
