"""The clients that keep the contract, each over agents that do as they are told."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from training_world import QUICK, Script, ToldAgent, ToldServers

from palestra.fleet import listen, serving
from palestra.training import (
    ClientSettings,
    FleetPool,
    RemoteRolloutClient,
    RolloutClient,
    RolloutSource,
)
from palestra.training.service import RolloutService
from palestra.transport import ASGIApp

Opened = AbstractAsyncContextManager[tuple[RolloutSource, ToldAgent]]
Opener = Callable[..., Opened]


def settings_for(**settings: Any) -> ClientSettings:
    given: dict[str, Any] = {"attempts": QUICK, "memory_reserve": 0.0, "min_fraction": 0.0}
    return ClientSettings(**given | settings)


def client_of(agent: ToldAgent, **settings: Any) -> RolloutClient:
    """A client of a fleet of this agent."""
    servers = contextlib.nullcontext(ToldServers(agent))
    return RolloutClient(servers, settings_for(**settings))


@contextlib.asynccontextmanager
async def service_over(
    source: RolloutSource, *, behind: Callable[[ASGIApp], ASGIApp] = lambda app: app, **options: Any
) -> AsyncIterator[str]:
    """The address of a rollout service over a client, which it enters. `behind`: a proxy."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(source)
        service = RolloutService(source, **options)
        sock = listen("127.0.0.1", 0)
        port = sock.getsockname()[1]
        await stack.enter_async_context(serving(behind(service.app()), sock))
        await stack.enter_async_context(service)
        yield f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def direct(script: Script, **settings: Any) -> AsyncIterator[tuple[RolloutSource, ToldAgent]]:
    agent = ToldAgent(script)
    async with client_of(agent, **settings) as client:
        yield client, agent


@contextlib.asynccontextmanager
async def remote(script: Script, **settings: Any) -> AsyncIterator[tuple[RolloutSource, ToldAgent]]:
    agent = ToldAgent(script)
    async with (
        service_over(client_of(agent, **settings)) as url,
        RemoteRolloutClient(url, patience_s=5) as client,
    ):
        yield client, agent


@contextlib.asynccontextmanager
async def pooled(script: Script, **settings: Any) -> AsyncIterator[tuple[RolloutSource, ToldAgent]]:
    """Three fleets, which share an agent so that one sees all that is done."""
    agent = ToldAgent(script)
    fleets = {name: lambda: client_of(agent) for name in ("a", "b", "c")}
    async with FleetPool(fleets, settings_for(**settings)) as client:
        yield client, agent


CLIENTS: dict[str, Opener] = {"direct": direct, "remote": remote, "pooled": pooled}
