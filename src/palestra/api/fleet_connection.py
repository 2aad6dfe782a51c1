"""Selects the fleet for a command: a fleet that already runs, or a new one inside the command's
process.

`find` selects the fleet before any server starts, so that errors in the rows are reported before
the command waits for a model. `open` then returns the client for the fleet.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Protocol, Self, TypeVar, final

import yaml
from pydantic import BaseModel, Field

from palestra.api.server_semantics import differs_from_running, models_differ
from palestra.config import ConfigTree, InstanceConfig, ResolvedConfig, ServerType, config_from_tree
from palestra.errors import (
    CallError,
    ConfigError,
    CredentialsRejected,
    Hopeless,
    KnownCause,
    PalestraError,
    RunFailed,
    reword,
)
from palestra.fleet import (
    EMBEDDED,
    AttachedFleet,
    Fleet,
    FleetNews,
    ForeignFleet,
    HeadAddress,
    LoadedCode,
    NoFleet,
    RunningInstance,
    attach,
    code_digests,
    http_transport,
    loaded_code,
    server_client,
)
from palestra.rollouts import first_cause
from palestra.server import ModelServer, ask_endpoint
from palestra.settings import PatienceArgs, args_from
from palestra.transport import HttpTransport, ServerClient

ASK_AGAIN_S = 2.0
SHORTEST_S = 1.0
"""The least time, in seconds, that an endpoint has for its first answer, even in a shorter wait."""
LINE_EVERY_S = 60.0
LEARN_S = 0.5
WAITING_LONGER = "model_endpoint_readiness_timeout_seconds"

T = TypeVar("T")
Tell = Callable[[str], object]
"""A function that gets each line of text for people."""
Check = Callable[[], Awaitable[str]]
"""Returns the answer of an endpoint as text. Raises `CallError`: the endpoint cannot be reached."""


async def wait_for_endpoints(fleet: Fleet, report: Tell) -> None:
    """Wait until the endpoint of every embedded model server answers; report each answer.

    Raises the endpoint's error when it rejects the key. Raises RunFailed: an endpoint does not
    answer in time.
    """
    servers = [fleet.server(name) for name in fleet.instances]
    checks = {
        server.name: _check_of(server, fleet.config.instances.get(server.name))
        for server in servers
        if isinstance(server, ModelServer)
    }
    await _wait_for_all(checks, Wait.of(fleet.config.tree), report)


def _check_of(server: ModelServer, instance: InstanceConfig | None) -> Check:
    async def check() -> str:
        try:
            answer = await server.check()
        except CredentialsRejected as error:
            if origins := instance.origins_of_secrets() if instance else ():
                key = f"; the key is {', '.join(origins)}"
                reword(error, message=str, hint=lambda hint: f"{hint}{key}".removeprefix("; "))
            raise
        return server.server_client.mask(answer)

    return check


async def ask_endpoints(client: ServerClient, config: ResolvedConfig, report: Tell) -> None:
    """Like `wait_for_endpoints`, for the model servers of a running fleet, over HTTP."""

    def check_of(name: str) -> Check:
        async def check() -> str:
            return (await ask_endpoint(client, name)).text

        return check

    checks = {name: check_of(name) for name in _models_of(client)}
    await _wait_for_all(checks, Wait.of(config.tree), report)


async def warn_of_endpoints(client: ServerClient, report: Tell) -> None:
    """Report each endpoint that a model server of a running fleet cannot use now. It may be started
    later.
    """
    for name in _models_of(client):
        try:
            await ask_endpoint(client, name)
        except CallError as error:
            report(f"warning: {error.message}; rollouts that ask it will fail until this is mended")


def _models_of(client: ServerClient) -> list[str]:
    return [
        name for name, target in client.targets.items() if target.server_type == ServerType.MODEL
    ]


class _Readiness(BaseModel):
    """NeMo Gym's setting for the time to wait for an endpoint."""

    model_endpoint_readiness_timeout_seconds: float | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait for an endpoint that may still be starting. `setting`: the setting that
    changes it, for messages.
    """

    limit_s: float | None
    """The length of the wait in seconds; None waits without end."""
    setting: str = "--patience SECONDS"

    SETTINGS: ClassVar = (WAITING_LONGER, "patience")

    @classmethod
    def of(cls, tree: ConfigTree) -> Self:
        """Return NeMo Gym's setting when it is given, else the `patience` of the run."""
        limit_s = args_from(_Readiness, tree).model_endpoint_readiness_timeout_seconds
        if limit_s is not None:
            return cls(limit_s, f"++{WAITING_LONGER}=SECONDS")
        return cls(args_from(PatienceArgs, tree).patience)

    def ends_at(self) -> str:
        """Return the end of a wait that starts now, such as `giving up at 14:03:10`, in local time."""
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
    """Decides when the next line about a wait is due: at once, after about 2, 4, 8 seconds, then
    once a minute.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, elapsed_s: float) -> bool:
        """Whether a line is due `elapsed_s` seconds after the start. If so, the time of the next
        line is set.
        """
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s + min(elapsed_s, LINE_EVERY_S)
        return True


async def wait_for(name: str, check: Callable[[], Awaitable[T]], wait: Wait, report: Tell) -> T:
    """Call `check` until it succeeds or the wait ends; return its result. Reports what it waits for
    and when the wait ends.

    Raises RunFailed: the wait ended. Raises the error of `check` at once when waiting cannot help.
    """
    started, pace, ends_at = time.monotonic(), ReminderPace(), wait.ends_at()
    deadline = None if wait.limit_s is None else started + wait.limit_s
    trouble: CallError | None = None
    reported_reason = ""
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
                f"model server {name} has no endpoint after {wait.limit_s:g} s: {reason}",
                hint="check that base_url is right and that the endpoint is running; "
                f"{wait.setting} waits longer",
            ) from trouble
        elapsed_s = time.monotonic() - started
        if pace.is_due(elapsed_s):
            news = f"{ends_at} ({wait.setting}): {reason}"
            if reason == reported_reason:
                news = f"for {elapsed_s:.0f} s now"
            report(f"{name}: waiting for its endpoint, {news}")
            reported_reason = reason
        await asyncio.sleep(ASK_AGAIN_S if left_s is None else min(ASK_AGAIN_S, left_s))


def _left_s(deadline: float | None, at_least: float = 0.0) -> float | None:
    return None if deadline is None else max(at_least, deadline - time.monotonic())


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
                await ask_endpoints(client, self.own, self.observer.tell)
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
            tree = yaml.safe_load(running.config_yaml) or {}
            code = await loaded_code(running, http)
            fleet = RunningFleet(config_from_tree(tree), running, http, config, code, observer)
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
