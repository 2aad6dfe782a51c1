"""One client over several fleets: which one gets a rollout, and what happens when one is lost."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contract_world import client_of, service_over, settings_for
from process_world import ENVIRONMENT, config, pid_of, row, write_project
from starlette.applications import Starlette
from training_world import AGENT, ToldAgent, ToldServers, request, requests

from palestra.errors import ConfigError, RunFailed, VerifierError
from palestra.fleet import PROCESS, ChildExit, Fleet
from palestra.training import (
    ClientSettings,
    Completed,
    Failed,
    FailureClass,
    FleetPool,
    IncompleteRollouts,
    Key,
    OnIncomplete,
    RemoteRolloutClient,
    RolloutClient,
)
from palestra.transport import ASGIApp, Target

pytestmark = pytest.mark.anyio
KILLED = ChildExit(AGENT, -9, ("killed",), pid=4711)


class EnvironmentThatActs:
    """An environment that does not declare that a rollout may be started again."""

    is_tool = False

    def typed_endpoint(self, path: str, /) -> None:
        """It has none."""

    def asgi_app(self) -> ASGIApp:
        return Starlette()


class Told:
    """Fleets that can be made again: what their agents did, and the servers of each."""

    def __init__(self, **scripts: Any) -> None:
        self.agents = {name: ToldAgent(script) for name, script in scripts.items()}
        self.servers: dict[str, list[ToldServers]] = {name: [] for name in scripts}
        self.refusing: set[str] = set()
        self.environments: tuple[Target, ...] = ()

    def makers(self, **settings: Any) -> dict[str, Any]:
        return {name: partial(self._make, name, settings) for name in self.agents}

    def _make(self, name: str, settings: dict[str, Any]) -> RolloutClient:
        return RolloutClient(self._servers(name), settings_for(**settings))

    @contextlib.asynccontextmanager
    async def _servers(self, name: str) -> AsyncIterator[ToldServers]:
        if name in self.refusing:
            raise RunFailed(f"{name} does not start")
        servers = ToldServers(self.agents[name], *self.environments)
        self.servers[name].append(servers)
        yield servers

    def kill(self, name: str) -> None:
        self.servers[name][-1].dies(KILLED)


def pool_of(told: Told, member: dict[str, Any] | None = None, **settings: Any) -> FleetPool:
    return FleetPool(told.makers(**member or {}), settings_for(**settings), look_every_s=0.02)


async def waits(key: Key, attempt: int) -> float:
    await asyncio.Event().wait()
    return 1.0


async def test_rollouts_are_spread_by_load() -> None:
    told = Told(a=waits, b=waits, c=waits)
    async with pool_of(told, {"in_flight": 10}) as pool, pool.submit(requests(30)):
        for agent in told.agents.values():
            await agent.until_begun(10)

    assert [len(agent.begun) for agent in told.agents.values()] == [10, 10, 10]


async def test_by_default_as_many_run_as_all_fleets_can_run() -> None:
    told = Told(a=waits, b=waits)
    async with FleetPool(told.makers(in_flight=3)) as pool:
        assert pool.settings.in_flight == 6


async def test_of_three_fleets_one_dies_and_no_rollout_is_lost() -> None:
    async def short(key: Key, attempt: int) -> float:
        await asyncio.sleep(0)
        return float(key.rollout_index)

    told = Told(a=short, b=short, c=short)
    seen: Counter[Key] = Counter()
    async with pool_of(told, in_flight=30) as pool:
        batch = pool.submit(requests(100, 4))
        async for outcome in batch:
            seen[outcome.key] += 1
            if len(seen) == 100:
                told.kill("b")

    assert (len(seen), set(seen.values())) == (400, {1})
    assert batch.summary().completed == 400
    assert batch.summary().retried > 0


async def test_a_rollout_that_was_lost_runs_elsewhere_and_counts_its_attempts() -> None:
    told = Told(a=waits, b=lambda *_: 1.0)
    told.refusing.add("b")
    async with FleetPool(
        told.makers(), settings_for(), at_least=1, look_every_s=0.02, reopen_after_s=0.05
    ) as pool:
        batch = pool.submit([request()])
        await told.agents["a"].until_begun(1)
        told.refusing.clear()
        told.kill("a")
        (outcome,) = await batch.gather()

    assert isinstance(outcome, Completed)
    assert outcome.attempt == 2
    assert [len(agent.begun) for agent in told.agents.values()] == [1, 1]


async def test_a_rollout_that_began_is_not_repeated_where_that_is_not_declared_safe() -> None:
    told = Told(a=waits, b=lambda *_: 1.0)
    told.refusing.add("b")
    told.environments = (Target("x", "resources_servers", local=EnvironmentThatActs()),)
    async with FleetPool(
        told.makers(),
        settings_for(on_incomplete="mask"),
        at_least=1,
        look_every_s=0.02,
        reopen_after_s=0.05,
    ) as pool:
        batch = pool.submit([request()])
        await told.agents["a"].until_begun(1)
        told.refusing.clear()
        told.kill("a")
        outcome = await batch.next()

    assert isinstance(outcome, Failed)
    assert "repeatable = True" in outcome.evidence.hint
    assert told.agents["b"].begun == []


async def test_a_rollout_that_every_fleet_lost_says_where() -> None:
    told = Told(a=waits, b=waits)
    policy = dict.fromkeys([FailureClass.INFRA_ERROR], OnIncomplete.MASK)
    async with pool_of(told, on_incomplete=policy, attempts=settings_for().attempts) as pool:
        batch = pool.submit([request(0), request(1)])
        for name, agent in told.agents.items():
            await agent.until_begun(1)
            told.refusing.add(name)
        for _ in range(2):
            told.kill("a" if told.agents["a"].running else "b")
            await asyncio.sleep(0.05)
        health = await pool.health()

    assert not health.ok
    assert "a: " in health.reason
    assert "b: " in health.reason
    assert batch.summary().adds_up


async def test_a_failure_that_is_the_rollouts_own_is_not_tried_elsewhere() -> None:
    def raises(key: Key, _: int) -> float:
        raise VerifierError("it raised")

    told = Told(a=raises, b=raises)
    async with pool_of(told, on_incomplete="mask") as pool:
        batch = pool.submit(requests(1))
        outcome = await batch.next()

    assert isinstance(outcome, Failed)
    assert (outcome.failure, outcome.attempts) == (FailureClass.VERIFIER_ERROR, 1)
    assert outcome.evidence.where.startswith("fleet ")
    assert sum(len(agent.begun) for agent in told.agents.values()) == 1


async def test_a_fleet_that_comes_back_is_used_again() -> None:
    told = Told(a=lambda *_: 1.0, b=waits)
    async with FleetPool(
        told.makers(in_flight=1), settings_for(in_flight=2), look_every_s=0.02, reopen_after_s=0.05
    ) as pool:
        await pool.set_weight_version(7)
        told.kill("a")
        async with asyncio.timeout(20):
            while len(told.servers["a"]) < 2:  # noqa: ASYNC110  # its second start is no event
                await asyncio.sleep(0.02)
            outcomes = [await pool.submit([request(n)]).next() for n in range(2)]

    assert any(isinstance(outcome, Completed) for outcome in outcomes[:1])
    assert outcomes[0].weights_start == 7  # type: ignore[union-attr]  # completed


async def test_batches_end_when_no_fleet_comes_back_in_time() -> None:
    told = Told(a=waits, b=waits)
    async with FleetPool(told.makers(), settings_for(), patience_s=0.2, look_every_s=0.02) as pool:
        batch = pool.submit(requests(4))
        await told.agents["a"].until_begun(1)
        told.refusing |= {"a", "b"}
        told.kill("a")
        told.kill("b")
        with pytest.raises(IncompleteRollouts, match="none of the 2 fleets can be used") as raised:
            await batch.gather()

    assert "b: " in raised.value.cause.sentence


async def test_a_pool_does_not_start_without_its_fleets() -> None:
    told = Told(a=waits, b=waits)
    told.refusing.add("b")
    with pytest.raises(RunFailed, match="b does not start"):
        async with pool_of(told):
            pass


async def test_a_pool_without_a_fleet_is_refused() -> None:
    with pytest.raises(ConfigError, match="no fleet"):
        FleetPool({})


async def test_the_same_key_may_be_in_two_submissions() -> None:
    told = Told(a=lambda *_: 1.0, b=lambda *_: 1.0)
    async with pool_of(told) as pool:
        batches = [pool.submit(requests(10)) for _ in range(3)]
        outcomes = [await batch.gather() for batch in batches]

    assert [len(found) for found in outcomes] == [10, 10, 10]


async def test_a_pool_of_services_survives_one_that_is_gone() -> None:
    gone, stays = ToldAgent(waits), ToldAgent(lambda *_: 1.0)
    async with contextlib.AsyncExitStack() as stack:
        lasting = await stack.enter_async_context(service_over(client_of(stays)))
        ending = contextlib.AsyncExitStack()
        first = await ending.enter_async_context(service_over(client_of(gone)))
        fleets = {
            url: partial(RemoteRolloutClient, url, patience_s=0.2) for url in (first, lasting)
        }
        pool = await stack.enter_async_context(
            FleetPool(fleets, settings_for(in_flight=8), look_every_s=0.02)
        )
        batch = pool.submit(requests(8))
        await gone.until_begun(1)
        await ending.aclose()
        outcomes = await batch.gather()

    assert all(isinstance(outcome, Completed) for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_of_three_fleets_of_processes_one_is_killed_and_none_of_5000_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repeatable = "class X(ResourcesServer):\n    repeatable = True\n"
    write_project(tmp_path, ENVIRONMENT.replace("class X(ResourcesServer):\n", repeatable))
    found, started = config(tmp_path), dict[str, Fleet]()

    def make(name: str) -> RolloutClient:
        started[name] = Fleet(found, default_placement=PROCESS)
        return RolloutClient(started[name], ClientSettings(memory_reserve=0.0, in_flight=32))

    seen: Counter[Key] = Counter()
    settings = ClientSettings(memory_reserve=0.0, in_flight=96)
    async with FleetPool({name: partial(make, name) for name in "abc"}, settings) as pool:
        batch = pool.submit([row(number) for number in range(5000)])
        async for outcome in batch:
            seen[outcome.key] += isinstance(outcome, Completed)
            if len(seen) == 1500:
                os.kill(pid_of(started["b"], "agent"), signal.SIGKILL)

    assert (len(seen), set(seen.values())) == (5000, {1})
    assert batch.summary().completed == 5000
