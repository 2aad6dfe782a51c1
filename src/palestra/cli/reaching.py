"""Which fleet a command works with: the one that runs already, or one inside the command.

`find` decides, before anything starts, so that what is wrong with the rows is said before a
model is waited for; `open` then gives the client to call the fleet with.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, final

import yaml

from palestra.cli.console import notice
from palestra.cli.endpoints import ask_endpoints, wait_for_endpoints
from palestra.cli.fleet_commands import show_instances
from palestra.cli.guard import tell_guard
from palestra.cli.meaning import differs_from_running
from palestra.config import ResolvedConfig, config_from_tree
from palestra.errors import ConfigError, PalestraError, RunFailed
from palestra.fleet import (
    EMBEDDED,
    AttachedFleet,
    Fleet,
    ForeignFleet,
    HeadAddress,
    NoFleet,
    attach,
    http_transport,
    server_client,
)
from palestra.rollouts import first_cause
from palestra.transport import HttpTransport, ServerClient

T = TypeVar("T")
HEAD_CHECK_EVERY_S = 2.0
LEARN_S = 0.5


@dataclass(frozen=True, slots=True)
class Reachable:
    """A fleet that answers: how to call it, and what ends it."""

    client: ServerClient
    watch: Callable[[], Awaitable[None]]
    """Raises when the fleet breaks; never returns otherwise."""


class FleetChoice(Protocol):
    """A fleet that a command will work with."""

    @property
    def config(self) -> ResolvedConfig:
        """What it is made of."""

    def open(self, *, models: bool = True) -> contextlib.AbstractAsyncContextManager[Reachable]:
        """Reach it, once its servers answer and, if `models` are needed, their endpoints do."""


@final
@dataclass(frozen=True, slots=True)
class OwnFleet:
    """Servers inside this process, for as long as the command runs."""

    config: ResolvedConfig

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Start every server, and wait for their endpoints."""
        fleet = Fleet(
            self.config,
            default_placement=EMBEDDED,
            on_line=lambda who, text: notice(f"[{who}] {text}"),
        )
        tell_guard(ray_folder=str(fleet.ray_folder))
        async with fleet:
            show_instances(fleet.instances.values())
            try:
                if models:
                    await wait_for_endpoints(fleet)
            except ExceptionGroup as group:
                raise first_cause(group) from None
            yield Reachable(client=fleet.client, watch=fleet.watch)


@final
@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A fleet that somebody has started."""

    config: ResolvedConfig
    attached: AttachedFleet
    http: HttpTransport
    own: ResolvedConfig
    """The command's configuration: its token and its client settings."""

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Ask its model servers for their endpoints."""
        token = str(self.own.tree.get("fleet_token") or "")
        client = server_client(self.attached.targets(), self.own.tree, token=token, http=self.http)
        try:
            if models:
                await ask_endpoints(client, self.own)
        except ExceptionGroup as group:
            raise first_cause(group) from None
        yield Reachable(client=client, watch=self._gone)

    async def _gone(self) -> None:
        """Raise when the fleet's head server has stopped answering."""
        address = self.attached.address
        misses = 0
        while misses < 3:
            await asyncio.sleep(HEAD_CHECK_EVERY_S)
            try:
                await attach(address, self.http)
                misses = 0
            except (PalestraError, OSError):
                misses += 1
        raise RunFailed(
            f"the fleet at {address.url} is gone",
            hint="its own terminal says why; start it again and go on with "
            "++resume_from_cache=true",
        )


@contextlib.asynccontextmanager
async def find(config: ResolvedConfig) -> AsyncIterator[FleetChoice]:
    """The running fleet that `config` belongs to, else one of its own."""
    http = http_transport(config.tree)
    try:
        address = HeadAddress.from_tree(config.tree)
        running = await _running(config, address, http)
        if running is None:
            yield OwnFleet(config)
        else:
            tree = yaml.safe_load(running.config_yaml) or {}
            fleet = RunningFleet(config_from_tree(tree), running, http, config)
            _check_same(fleet)
            yield fleet
    finally:
        await http.aclose()


async def _running(
    config: ResolvedConfig, address: HeadAddress, http: HttpTransport
) -> AttachedFleet | None:
    """The fleet that this command belongs to; None when it brings its own servers."""
    try:
        running = await attach(address, http)
    except NoFleet:
        if not config.instances:
            raise
        return None
    except ForeignFleet as error:
        if not config.instances:
            raise
        notice(f"{error.message}: running the servers inside this command")
        return None
    missing = config.instances.keys() - running.targets().keys()
    if missing:
        notice(
            f"the fleet at {running.address.url} has no {', '.join(sorted(missing))}: "
            "running the servers inside this command"
        )
        return None
    return running


def _check_same(fleet: RunningFleet) -> None:
    """Raise ConfigError when the command's config files say something else than the fleet's.

    Rewards would be those of the fleet, whatever the command was told.
    """
    found = differs_from_running(fleet.config, fleet.own)
    if found:
        raise ConfigError(
            f"the fleet at {fleet.attached.address.url} was started with other settings "
            "(fleet -> this command):\n  " + "\n  ".join(found),
            hint="leave out config_paths and overrides to use that fleet as it is, start it "
            "again with these settings, or ++head_server.port=0 with another PALESTRA_RUN_DIR "
            "to run the servers inside this command",
        )


async def unless(
    broken: Awaitable[None], work: Awaitable[T], *, doubtful: Callable[[T], bool] | None = None
) -> T:
    """The result of `work`, unless `broken` raises first: then that error, and work is undone.

    `doubtful`: whether a result may come of what `broken` is about to raise. Such a result waits
    `LEARN_S` for it: the sockets of a process that ends are closed before its parent learns of it.
    """
    guard = asyncio.ensure_future(broken)
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({guard, working}, return_when=asyncio.FIRST_COMPLETED)
        if guard.done() and not working.done():
            working.cancel()
            await asyncio.wait({working})
            await guard
        result = await working
        if doubtful is not None and doubtful(result):
            await asyncio.wait({guard}, timeout=LEARN_S)
            if guard.done():
                await guard
    except BaseException as error:
        raise first_cause(error) from None
    else:
        return result
    finally:
        for task in (guard, working):
            task.cancel()
        await asyncio.gather(guard, working, return_exceptions=True)
