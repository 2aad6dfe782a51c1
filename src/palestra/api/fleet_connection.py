"""Selects the fleet for a command: a fleet that already runs, or a new one inside the command's
process.

`find` selects the fleet before any server starts, so that errors in the rows are reported before
the command waits for a model. `open` then returns the client for the fleet.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar, final

import yaml

from palestra.api.endpoint_waiting import Tell, ask_endpoints, wait_for_endpoints
from palestra.api.server_semantics import differs_from_running, models_differ
from palestra.config import ResolvedConfig, config_from_tree
from palestra.errors import ConfigError, KnownCause, PalestraError, RunFailed
from palestra.fleet import (
    EMBEDDED,
    AttachedFleet,
    ConfigOrigins,
    Fleet,
    FleetNews,
    ForeignFleet,
    HeadAddress,
    LoadedCode,
    NoFleet,
    RunningInstance,
    attach,
    code_digests,
    config_origins,
    http_transport,
    loaded_code,
    server_client,
)
from palestra.rollouts import first_cause
from palestra.transport import HttpTransport, ServerClient

LEARN_S = 0.5

T = TypeVar("T")

HEAD_CHECK_EVERY_S: Final = 2.0
FROZEN_AFTER_S: Final = 5.0
"""The longest time, in seconds beyond a row's timeout, that the event loop may be blocked."""


def _ignore(*_values: object, **_fields: object) -> None:
    """Ignore all arguments: the default of an observer's functions."""


@dataclass(frozen=True, slots=True)
class CommandObserver:
    """The functions that a command calls to report its progress; by default they do nothing."""

    tell: Tell = _ignore
    fleet_started: Callable[[Iterable[RunningInstance]], object] = _ignore
    """Gets the servers inside this process after they have started."""
    note: Callable[..., object] = _ignore
    """Gets, as keyword arguments, what another process needs to finish the work if this process
    ends."""


SILENT: Final = CommandObserver()


@dataclass(frozen=True, slots=True)
class Reachable:
    """A fleet that answers requests: its client, and a function that waits for its failure."""

    client: ServerClient
    watch: Callable[[], Awaitable[None]]
    """Waits until the fleet breaks, then raises; otherwise it never returns."""


class FleetChoice(Protocol):
    """The fleet selected for a command."""

    @property
    def config(self) -> ResolvedConfig:
        """The configuration of the fleet."""

    @property
    def folder(self) -> Path:
        """The folder in which the relative paths of the configuration are."""

    @property
    def codes(self) -> Mapping[str, Mapping[str, str]]:
        """The digests of the author's code that each server runs, of those that have such code, by
        the names of its files.
        """

    def open(self, *, models: bool = True) -> contextlib.AbstractAsyncContextManager[Reachable]:
        """Connect to the fleet when its servers answer; with `models`, also wait for the endpoints
        of its models.
        """


@final
@dataclass(frozen=True, slots=True)
class OwnFleet:
    """A fleet of servers inside this process, which run as long as the command."""

    config: ResolvedConfig
    observer: CommandObserver = SILENT

    @property
    def folder(self) -> Path:
        """The working directory."""
        return Path.cwd()

    @property
    def codes(self) -> Mapping[str, Mapping[str, str]]:
        """The digests of the code on disk: the servers start after this command."""
        return code_digests(self.config)

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Start every server; with `models`, wait for the endpoints."""
        fleet = Fleet(
            self.config,
            default_placement=EMBEDDED,
            on_line=lambda who, text: self.observer.tell(f"[{who}] {text}"),
        )
        self.observer.note(ray_folder=str(fleet.ray_folder))
        async with fleet:
            self.observer.fleet_started(fleet.instances.values())
            try:
                if models:
                    await wait_for_endpoints(fleet, self.observer.tell)
            except ExceptionGroup as group:
                raise first_cause(group) from None
            yield Reachable(client=fleet.client, watch=fleet.watch)


@final
@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A fleet that was started by another command."""

    config: ResolvedConfig
    attached: AttachedFleet
    http: HttpTransport
    own: ResolvedConfig
    """The configuration of the command, with its token and client settings."""
    code: Mapping[str, LoadedCode]
    """The author's code that each server runs. It is not always what is on disk now."""
    origins: ConfigOrigins
    """Where the fleet's settings came from."""
    observer: CommandObserver = SILENT

    @property
    def codes(self) -> Mapping[str, Mapping[str, str]]:
        """The digests of the code that the fleet has loaded."""
        return {name: server.digests for name, server in self.code.items()}

    @property
    def folder(self) -> Path:
        """The fleet's working directory; this command's when the fleet is on another machine."""
        run = self.attached.run
        return Path(run.folder) if run is not None and run.folder else Path.cwd()

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Connect to the fleet; with `models`, wait for the endpoints of its model servers."""
        token = str(self.own.tree.get("fleet_token") or "")
        client = server_client(self.attached.targets(), self.own.tree, token=token, http=self.http)
        news = FleetNews(self.attached, self.http)
        client.blocked_servers = lambda: news.blocked
        client.ask_fleet = news.ask
        client.ending_failure = news.ending_failure
        try:
            if models:
                await ask_endpoints(
                    client, self.own.tree, self.origins.of_secrets, self.observer.tell
                )
        except ExceptionGroup as group:
            raise first_cause(group) from None
        yield Reachable(client=client, watch=partial(self._gone, news))

    async def _gone(self, news: FleetNews) -> None:
        """Raise the error with which the fleet ended, or RunFailed when its head server has failed
        to answer three times in a row.
        """
        address = self.attached.address
        misses = 0
        while misses < 3:
            await asyncio.sleep(HEAD_CHECK_EVERY_S)
            await news.ask()
            try:
                await attach(address, self.http)
                misses = 0
            except (PalestraError, OSError):
                misses += 1
        raise RunFailed(
            f"the fleet at {address.url} is gone: its servers do not answer any more",
            hint="their terminal says why, unless they were killed from outside; start them again "
            "and continue with --resume",
        )


@contextlib.asynccontextmanager
async def find(
    config: ResolvedConfig, observer: CommandObserver = SILENT
) -> AsyncIterator[FleetChoice]:
    """Yield the running fleet that fits `config`; without one, a fleet inside this process."""
    http = http_transport(config.tree)
    try:
        address = HeadAddress.from_tree(config.tree)
        running = await _running(config, address, http, observer)
        if running is None:
            yield OwnFleet(config, observer)
        else:
            origins = await config_origins(running, http)
            runs = config_from_tree(yaml.safe_load(running.config_yaml) or {})
            fleet = RunningFleet(
                config=replace(runs, takers=origins.takers_from_here()),
                attached=running,
                http=http,
                own=config,
                code=await loaded_code(running, http),
                origins=origins,
                observer=observer,
            )
            _check_same(fleet)
            _tell_changed_code(fleet)
            yield fleet
    finally:
        await http.aclose()


async def _running(
    config: ResolvedConfig, address: HeadAddress, http: HttpTransport, observer: CommandObserver
) -> AttachedFleet | None:
    """Return the running fleet for this command; None when the command must start its own servers."""
    try:
        running = await attach(address, http)
    except NoFleet:
        if not config.instances:
            raise
        return None
    except ForeignFleet as error:
        if not config.instances:
            raise
        observer.tell(f"{error.message}: running the servers inside this command")
        return None
    missing = config.instances.keys() - running.targets().keys()
    if missing:
        observer.tell(
            f"the fleet at {running.address.url} has no {', '.join(sorted(missing))}: "
            "running the servers inside this command"
        )
        return None
    return running


def _check_same(fleet: RunningFleet) -> None:
    """Raise ConfigError when the config of the command differs from the config of the fleet.

    Otherwise the rewards would follow the fleet's settings and ignore those of the command.
    """
    changed = differs_from_running(fleet.config, fleet.own)
    models = models_differ(fleet.config, fleet.own)
    if not changed and models.keys() & fleet.own.command_keys:
        changed = list(models.values())
    elif not changed and models:
        fleet.observer.tell(
            f"warning: the fleet at {fleet.attached.address.url} answers with its own model; env.yaml "
            f"differs (fleet -> env.yaml): {', '.join(models.values())}"
        )
    if changed:
        raise ConfigError(
            f"the fleet at {fleet.attached.address.url} was started with other settings (fleet "
            "-> this command):\n  " + "\n  ".join(changed),
            hint="leave out config_paths and overrides to use that fleet as it is; or restart it "
            "with these settings; or run the servers inside this command: "
            "++head_server.port=0 and another PALESTRA_RUN_DIR",
            cause=KnownCause.OTHER_FLEET,
        )


def _tell_changed_code(fleet: RunningFleet) -> None:
    """Report the servers whose code has changed since they loaded it."""
    for name, server in fleet.code.items():
        if server.changed:
            hidden = len(server.changed) - 1
            files = f"{server.changed[0]} and {hidden} more" if hidden else server.changed[0]
            fleet.observer.tell(
                f"warning: {name} runs the code that it started with, and {files} "
                "changed since: for rewards of the new code, restart the servers"
            )


async def unless(
    broken: Awaitable[None], work: Awaitable[T], *, doubtful: Callable[[T], bool] | None = None
) -> T:
    """Return the result of `work`. If `broken` raises first, cancel `work` and raise this error.

    `doubtful`: whether a result may be caused by an error that `broken` has not raised yet. For
    such a result, the function waits `LEARN_S` for the error, because the sockets of an ending
    process close before its parent notices the end.
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
