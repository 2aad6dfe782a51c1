"""The servers that a client calls, and the watch that detects their end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, final

from palestra.config import ResolvedConfig, ServerType, find_references
from palestra.datasets import DoorKeeper
from palestra.errors import CallError, ConfigError, PalestraError, RunFailed
from palestra.fleet import PROCESS, ChildExit, Fleet, RunningInstance
from palestra.rollouts import AgentRoute, doors_behind
from palestra.server import REPEATABLE
from palestra.training.checks import shown
from palestra.training.memory import gone
from palestra.transport import CallContext, ServerClient, calling

logger = logging.getLogger("palestra.training")

ANSWER_WITHIN_S: Final = 5.0
TOLD_WITHIN_S: Final = 3.0
"""Seconds to wait for the explanation of how a process ended that is known to have ended."""
LOOK_FOR_S: Final = 0.3
"""Seconds to look for a dead process after a connection was lost: a process loses its connections a
moment before it has ended."""


class Servers(Protocol):
    """A running fleet that a client calls and watches. `palestra.fleet.Fleet` is one."""

    @property
    def client(self) -> ServerClient:
        """The client that calls the servers."""

    @property
    def instances(self) -> Mapping[str, RunningInstance]:
        """The server instances, by name."""

    @property
    def ending(self) -> ChildExit | None:
        """How the process ended that made `watch` raise an error; None when unknown."""

    async def watch(self) -> None:
        """Wait until a server process ends by itself, and raise an error that says how."""


@final
class DeathWatch:
    """Waits until the servers end, and then calls `on_death` once."""

    def __init__(self, servers: Servers, on_death: Callable[[PalestraError], None]) -> None:
        self._servers = servers
        self._on_death = on_death
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch the servers, in a background task."""
        self._task = asyncio.create_task(self._watch(), name="watch over the servers")

    async def stop(self) -> None:
        """Stop watching the servers."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        try:
            await self._servers.watch()
            failure: PalestraError = RunFailed("the servers were stopped while they were needed")
        except PalestraError as error:
            failure = error
        except Exception as error:  # whatever a fleet of somebody else's raises
            message = f"the task that watches the servers ended: {type(error).__name__}: {error}"
            failure = RunFailed(message)
        self._on_death(failure)

    async def settled(self) -> None:
        """Wait until a server's death, if there was one, has been reported; return soon when there
        was none.

        Call this after a lost connection: the report of the reason may still be on its way.
        """
        task, pids = self._task, self.pids
        if task is None or task.done() or not pids:
            return
        until = time.monotonic() + LOOK_FOR_S
        while not task.done() and time.monotonic() < until:
            if any(gone(pid) for pid in pids):
                await asyncio.wait({task}, timeout=TOLD_WITHIN_S)
                return
            await asyncio.wait({task}, timeout=LOOK_FOR_S / 6)

    @property
    def pids(self) -> list[int]:
        """The process ids of the servers on this machine."""
        instances = self._servers.instances.values()
        return [instance.pid for instance in instances if instance.pid is not None]


OpenServers = AbstractAsyncContextManager[Servers]
"""A fleet as an async context manager: entering starts it and leaving stops it."""


def servers_of(source: ResolvedConfig | OpenServers) -> OpenServers:
    """Return the servers for a client, from a fleet or from a fleet's configuration.

    Servers run in their own processes unless the configuration or the fleet names another
    placement. Then a server that blocks or uses too much memory does not harm the trainer. Raises
    ConfigError: `source` is neither.
    """
    if isinstance(source, ResolvedConfig):
        return Fleet(source, default_placement=PROCESS)
    if isinstance(source, Fleet):
        source.place_by_default(PROCESS)
    if not isinstance(source, AbstractAsyncContextManager):
        raise ConfigError(
            f"servers is {shown(source)}; it must be a configuration or a fleet",
            hint="RolloutClient(load_config(config_paths=[…])), or RolloutClient(attached()) for a "
            "fleet that runs",
        )
    return source


def ending_behind(error: PalestraError) -> ChildExit | None:
    """Return how a server's own subprocess ended, if that made a call fail; else None."""
    ending = getattr(error, "ending", None)
    return ending if isinstance(ending, ChildExit) else None


def agents_of(servers: Servers) -> list[str]:
    """Return the names of the agent instances, in the fleet's order."""
    targets = servers.client.targets.values()
    return [target.name for target in targets if target.server_type == ServerType.AGENT]


def agent_for(row: Mapping[str, Any], default: str) -> str:
    """Return the name of the agent that a row names; else `default`."""
    agent_ref = row.get("agent_ref")
    name = agent_ref.get("name") if isinstance(agent_ref, Mapping) else None
    return str(name or default)


def only_agent(servers: Servers, wanted_agent: str) -> str:
    """Return `wanted_agent`; if empty, the fleet's only agent; else "". Raises ConfigError: the
    agent is unknown.
    """
    agents = agents_of(servers)
    if wanted_agent and wanted_agent not in agents:
        raise ConfigError(
            f"no agent is named {wanted_agent!r}", hint=f"agents: {', '.join(agents) or 'none'}"
        )
    return wanted_agent or (agents[0] if len(agents) == 1 else "")


async def repeatable_environments(client: ServerClient) -> dict[str, bool]:
    """Return for each environment whether a failed rollout may be started again."""
    is_repeatable: dict[str, bool] = {}
    for target in list(client.targets.values()):
        if target.server_type != ServerType.RESOURCES:
            continue
        try:
            with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
                reply = await client.get(target.name, REPEATABLE, stateless=True)
            payload = await reply.json() if reply.ok else {}
        except (CallError, ValueError):
            payload = {}
        # What does not say so is not safe.
        is_repeatable[target.name] = isinstance(payload, dict) and payload.get("repeatable") is True
    return is_repeatable


async def keepers_of(servers: Servers) -> dict[str, DoorKeeper]:
    """Return the check for each agent's rows: the request models of the agent and its environments."""
    client = servers.client
    routes = [
        AgentRoute(
            agent,
            referenced(client.tree.get(agent), ServerType.RESOURCES),
            agent in servers.instances and servers.instances[agent].is_shipped,
        )
        for agent in agents_of(servers)
    ]
    doors = await doors_behind(client, routes)
    return {agent: DoorKeeper(agent_doors) for agent, agent_doors in doors.items() if agent_doors}


def environments_of(client: ServerClient, agent: str) -> list[str]:
    """Return the environments that an agent's settings name; all of the fleet's when they name
    none.
    """
    environments = [
        t.name for t in client.targets.values() if t.server_type == ServerType.RESOURCES
    ]
    referenced_names = referenced(client.tree.get(agent), ServerType.RESOURCES)
    return [name for name in environments if not referenced_names or name in referenced_names]


def referenced(settings: Any, server_type: ServerType) -> tuple[str, ...]:
    """Return the names of the servers of `server_type` that an instance's settings refer to."""
    return tuple(ref.name for ref in find_references(settings) if ref.type == server_type)
