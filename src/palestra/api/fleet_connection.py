"""Which fleet a command works with: the one that runs already, or one inside the command.

`find` decides, before anything starts, so that what is wrong with the rows is said before a
model is waited for; `open` then gives the client to call the fleet with.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, Self, TypeVar, final

import yaml
from pydantic import BaseModel, Field

from palestra.api.server_semantics import differs_from_running
from palestra.config import ConfigTree, ResolvedConfig, ServerType, config_from_tree
from palestra.errors import CallError, ConfigError, Hopeless, KnownCause, PalestraError, RunFailed
from palestra.fleet import (
    EMBEDDED,
    AttachedFleet,
    Fleet,
    ForeignFleet,
    HeadAddress,
    NoFleet,
    RunningInstance,
    attach,
    http_transport,
    server_client,
)
from palestra.rollouts import first_cause
from palestra.server import ModelServer, ask_endpoint
from palestra.settings import PatienceArgs, args_from
from palestra.transport import HttpTransport, ServerClient

ASK_AGAIN_S = 2.0
SHORTEST_S = 1.0
"""What an endpoint that answers at all has for its first answer, however short the wait is."""
LINE_EVERY_S = 60.0
LEARN_S = 0.5
WAITING_LONGER = "model_endpoint_readiness_timeout_seconds"

T = TypeVar("T")
Tell = Callable[[str], object]
"""Gets each line that is meant for people."""
Check = Callable[[], Awaitable[str]]
"""What an endpoint said of itself. Raises `CallError` when it cannot be reached."""


async def wait_for_endpoints(fleet: Fleet, report: Tell) -> None:
    """Ask the endpoint of every embedded model server whether it is there; tell what it says.

    Raises what the endpoint said when it rejects the key, and RunFailed when it does not answer
    in time.
    """
    servers = [fleet.server(name) for name in fleet.instances]
    checks = {server.name: _masked(server) for server in servers if isinstance(server, ModelServer)}
    await _wait_for_all(checks, Wait.of(fleet.config.tree), report)


def _masked(server: ModelServer) -> Check:
    async def check() -> str:
        return server.server_client.mask(await server.check())

    return check


async def ask_endpoints(client: ServerClient, config: ResolvedConfig, report: Tell) -> None:
    """`wait_for_endpoints` for the model servers of a running fleet, over HTTP."""

    def check_of(name: str) -> Check:
        async def check() -> str:
            return (await ask_endpoint(client, name)).text

        return check

    models = [
        name for name, target in client.targets.items() if target.server_type == ServerType.MODEL
    ]
    await _wait_for_all({name: check_of(name) for name in models}, Wait.of(config.tree), report)


class _Readiness(BaseModel):
    """The field's own setting of how long an endpoint is waited for."""

    model_endpoint_readiness_timeout_seconds: float | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an endpoint that may still be starting is waited for, and what sets that."""

    limit_s: float | None
    """None: without end."""
    setting: str = "--patience SECONDS (+patience)"

    SETTINGS: ClassVar = (WAITING_LONGER, "patience")

    @classmethod
    def of(cls, tree: ConfigTree) -> Self:
        """The field's own setting where it is given, else the patience of the run."""
        limit_s = args_from(_Readiness, tree).model_endpoint_readiness_timeout_seconds
        if limit_s is not None:
            return cls(limit_s, f"++{WAITING_LONGER}=SECONDS")
        return cls(args_from(PatienceArgs, tree).patience)

    def ends_at(self) -> str:
        """`giving up at 14:03:10`, of a wait that begins now, by the clock of this machine."""
        if self.limit_s is None:
            return "without end"
        return (
            f"giving up at {time.strftime('%H:%M:%S', time.localtime(time.time() + self.limit_s))}"
        )


async def _wait_for_all(checks: Mapping[str, Check], wait: Wait, report: Tell) -> None:
    async def tell_endpoint(name: str, check: Check) -> None:
        report(f"{name}: {await wait_for(name, check, wait, report)}")

    async with asyncio.TaskGroup() as tasks:
        for name, check in checks.items():
            tasks.create_task(tell_endpoint(name, check), name=f"endpoint of {name}")


class ReminderPace:
    """When the next line about a wait is due: at once, after 2, 4, 8 seconds, then once a minute."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, elapsed_s: float) -> bool:
        """Whether to say it now, so many seconds into the wait; if so, it counts as said."""
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s + min(elapsed_s, LINE_EVERY_S)
        return True


async def wait_for(name: str, check: Callable[[], Awaitable[T]], wait: Wait, report: Tell) -> T:
    """What `check` returns, asked again until the wait ends. Tells what it waits for, and until when.

    Raises RunFailed at the end of the wait, and what `check` raises when waiting does not help.
    """
    started, pace, ends_at = time.monotonic(), ReminderPace(), wait.ends_at()
    deadline = None if wait.limit_s is None else started + wait.limit_s
    trouble: CallError | None = None
    while True:
        try:
            async with asyncio.timeout(_left_s(deadline, at_least=SHORTEST_S)) as limit:
                return await check()
        except Hopeless:
            raise
        except CallError as error:
            trouble = error
        except TimeoutError:
            if not limit.expired():
                raise
        left_s = _left_s(deadline)
        reason = "no answer" if trouble is None else trouble.message
        if left_s == 0:
            raise RunFailed(
                f"{name} has no endpoint after {wait.limit_s:g} s: {reason}",
                hint=f"is base_url right, and is the endpoint running? {wait.setting} waits longer",
            ) from trouble
        if pace.is_due(time.monotonic() - started):
            report(f"{name}: waiting for its endpoint, {ends_at} ({wait.setting}): {reason}")
        await asyncio.sleep(ASK_AGAIN_S if left_s is None else min(ASK_AGAIN_S, left_s))


def _left_s(deadline: float | None, at_least: float = 0.0) -> float | None:
    return None if deadline is None else max(at_least, deadline - time.monotonic())


HEAD_CHECK_EVERY_S: Final = 2.0
FROZEN_AFTER_S: Final = 5.0
"""How long beyond a row's timeout the event loop may stand still, whatever blocks it."""


def _ignore(*_values: object, **_fields: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class CommandObserver:
    """What a caller hears while the work goes on; without one of these, nothing."""

    tell: Tell = _ignore
    fleet_started: Callable[[Iterable[RunningInstance]], object] = _ignore
    """Gets the servers that run inside this process, once they do."""
    note: Callable[..., object] = _ignore
    """Gets, by name, what another process needs to end the work in this one's place."""


SILENT: Final = CommandObserver()


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
    observer: CommandObserver = SILENT

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Start every server, and wait for their endpoints."""
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
    """A fleet that somebody has started."""

    config: ResolvedConfig
    attached: AttachedFleet
    http: HttpTransport
    own: ResolvedConfig
    """The command's configuration: its token and its client settings."""
    observer: CommandObserver = SILENT

    @contextlib.asynccontextmanager
    async def open(self, *, models: bool = True) -> AsyncIterator[Reachable]:
        """Ask its model servers for their endpoints."""
        token = str(self.own.tree.get("fleet_token") or "")
        client = server_client(self.attached.targets(), self.own.tree, token=token, http=self.http)
        try:
            if models:
                await ask_endpoints(client, self.own, self.observer.tell)
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
async def find(
    config: ResolvedConfig, observer: CommandObserver = SILENT
) -> AsyncIterator[FleetChoice]:
    """The running fleet that `config` belongs to, else one of its own."""
    http = http_transport(config.tree)
    try:
        address = HeadAddress.from_tree(config.tree)
        running = await _running(config, address, http, observer)
        if running is None:
            yield OwnFleet(config, observer)
        else:
            tree = yaml.safe_load(running.config_yaml) or {}
            fleet = RunningFleet(config_from_tree(tree), running, http, config, observer)
            _check_same(fleet)
            yield fleet
    finally:
        await http.aclose()


async def _running(
    config: ResolvedConfig, address: HeadAddress, http: HttpTransport, observer: CommandObserver
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
    """Raise ConfigError when the command's config files say something else than the fleet's.

    Rewards would be those of the fleet, whatever the command was told.
    """
    changed = differs_from_running(fleet.config, fleet.own)
    if changed:
        raise ConfigError(
            f"the fleet at {fleet.attached.address.url} was started with other settings "
            "(fleet -> this command):\n  " + "\n  ".join(changed),
            hint="leave out config_paths and overrides to use that fleet as it is, start it "
            "again with these settings, or ++head_server.port=0 with another PALESTRA_RUN_DIR "
            "to run the servers inside this command",
            cause=KnownCause.OTHER_FLEET,
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
