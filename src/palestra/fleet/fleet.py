"""A fleet: all instances of a configuration. It starts, watches and stops them together.

    async with Fleet(config, placement="embedded") as fleet:
        ... fleet.client ...

Entering returns when every server is ready. Leaving stops all servers, also after an error. When a
server process ends by itself, `fleet.failure` is set and `fleet.watch()` raises.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final

from palestra.config import InstanceConfig, Redactor, ResolvedConfig, ServerType
from palestra.errors import (
    ConfigError,
    PalestraError,
    ServerDied,
)
from palestra.fleet.build import (
    PROFILE_WITHIN_S,
    build_server,
    profiler_for,
    server_client,
    start_server,
    starting,
    stop_server,
)
from palestra.fleet.child import STOP_S, ChildExit
from palestra.fleet.importing import IMPORTS, LONGER, start_timeout_of, starting_within
from palestra.fleet.instance import STUCK_AFTER_S, InstanceState, RunningInstance
from palestra.fleet.orders import WorkOrder
from palestra.fleet.own_code import OwnCode
from palestra.fleet.ray_clusters.place import RayPlace
from palestra.fleet.remote import await_remote, why_silent
from palestra.fleet.server_processes import ServerProcesses
from palestra.fleet.sockets import (
    check_hosts,
    http_url,
    listen_for,
    reachable_host,
    serving,
)
from palestra.fleet.venvs import (
    cache_root,
    interpreter_for,
    requirements_of,
    requirements_place,
    unsatisfied,
)
from palestra.server import Server
from palestra.system import allow_longer_stop, raise_descriptor_limit
from palestra.transport import ASGIApp, Target, new_id

if TYPE_CHECKING:
    from palestra.fleet.server_profiles.attributed import ProfiledServer

EMBEDDED, PROCESS, REMOTE = "embedded", "process", "remote"
REMOTE_EVERY_S = 3.0


@dataclass(frozen=True, slots=True)
class StopLimits:
    """How long each step of stopping a fleet may take."""

    processes_s: float
    """Seconds until a server process is killed."""
    embedded_s: float
    """Seconds that an embedded server's own `stop` has."""


AT_END: Final = StopLimits(processes_s=STOP_S, embedded_s=2.0)
CANCELLED: Final = StopLimits(processes_s=1.2, embedded_s=0.5)
"""The limits when the command was stopped, as by Ctrl-C. They add up to less than the 2 s that the
command has for its orderly stop."""


def placement_of(instance: InstanceConfig, default: str) -> str:
    """Return the placement of `instance`: embedded, process or remote."""
    if instance.placement is not None:
        return instance.placement
    if default == EMBEDDED and (requirements := requirements_place(instance)) is not None:
        needs_own = instance.num_workers > 1 or unsatisfied(requirements_of(requirements))
        return PROCESS if needs_own else EMBEDDED
    return default


@final
class Fleet:
    """All servers of one configuration.

    `default_placement` applies to instances whose config sets no placement. When it is None, these
    servers are embedded.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        *,
        default_placement: str | None = None,
        on_line: Callable[[str, str], object] | None = None,
    ) -> None:
        if not isinstance(config, ResolvedConfig):
            raise ConfigError(
                f"Fleet needs a loaded configuration, not a {type(config).__name__}",
                hint="load one with palestra.config.load_config(config_paths=[…])",
            )
        self.config = config
        self._default = default_placement
        self._token = str(config.tree.get("fleet_token") or "")
        self._secret = new_id()
        self._targets: dict[str, Target] = {}
        self._servers: list[Server] = []
        self._listening: list[socket.socket] = []
        self._watchers: list[asyncio.Task[None]] = []
        self.instances: dict[str, RunningInstance] = {}
        self._embedded: dict[str, Server] = {}
        self.codes: dict[str, OwnCode] = {}
        self._ray = RayPlace.of_fleet(config.tree)
        self._profiler = profiler_for(config.tree, shared=True)
        self._tree = dict(config.tree)
        self.client = server_client(self._targets, self._tree, token=self._token)
        self._processes = ServerProcesses(
            on_line=on_line,
            redact=Redactor(config.secrets),
            logs=config.tree.get("nemo_gym_log_dir"),
        )
        self.client.blocked_servers = self._processes.blocked
        self.client.ask_fleet = self._processes.raise_failure
        self.client.ending_failure = self._processes.ending_failure

    async def __aenter__(self) -> Self:
        raise_descriptor_limit()
        if self._profiler is not None:
            allow_longer_stop(PROFILE_WITHIN_S)
        check_hosts(self.config, self._token)
        try:
            await self._start()
        except BaseException as error:
            await self._stop(self._stop_limits(type(error)))
            raise
        return self

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        await self._stop(self._stop_limits(raised))

    def place_by_default(self, placement: str) -> None:
        """Set the placement for servers where neither the config nor `default_placement` sets one.

        For code that received a fleet built elsewhere. Call it before entering the fleet.
        """
        self._default = self._default or placement

    async def watch(self) -> None:
        """Wait until a server process ends by itself, and raise the `ServerDied` with its exit
        status.
        """
        raise await self._processes.failed()

    @property
    def failure(self) -> PalestraError | None:
        """The error that made the fleet fail: a server process ended by itself, or was killed
        because of a call. None while no server has failed.
        """
        return self._processes.failure

    @property
    def ending(self) -> ChildExit | None:
        """How the first process ended by itself: its `ChildExit`. None while no process has."""
        return self._processes.ending

    def server(self, name: str) -> Server | None:
        """Return the server object of an embedded instance; None for any other."""
        return self._embedded.get(name)

    @property
    def ray_folder(self) -> Path:
        """The folder of the fleet's own Ray cluster, if it starts one. Code that must end the fleet
        from outside needs it.
        """
        return self._ray.folder

    def added_settings(self) -> dict[str, str]:
        """Return the settings that the fleet added: the address of its own Ray cluster, if it has
        one.
        """
        return self._ray.settings()

    def codes_on_disk(self) -> dict[str, OwnCode]:
        """Read the author's code of each instance. It may have changed since the start, at which
        `codes` was read.
        """
        return {name: OwnCode.of(i) for name, i in self.config.instances.items()}

    # Starting

    async def _start(self) -> None:
        # Before the servers import it: a file that is edited in between counts as changed.
        self.codes = await asyncio.to_thread(self.codes_on_disk)
        await self._ray.check(self._tree)
        placed = [
            (instance, placement_of(instance, self._default or EMBEDDED))
            for instance in self.config.instances.values()
        ]
        # A fleet of processes is for other commands, too, whatever placement its servers declare.
        exposed = PROCESS in {self._default, *(placement for _, placement in placed)}
        if self._profiler is not None and any(placement == EMBEDDED for _, placement in placed):
            self._profiler.start()
        if any(placement == EMBEDDED for _, placement in placed):
            self._ray.notice_import(self._tree)
        sockets = {
            instance.name: self._sockets(instance, placement, exposed=exposed)
            for instance, placement in placed
        }
        for instance, placement in placed:
            self._announce(instance, placement, sockets[instance.name])
        self._watchers.append(
            asyncio.create_task(self._processes.look_after(), name="watch over processes")
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                for instance, placement in placed:
                    tasks.create_task(self._bring_up(instance, placement, sockets[instance.name]))
        except ExceptionGroup as group:
            raise _first(group) from None

    async def _bring_up(
        self, instance: InstanceConfig, placement: str, sockets: Sequence[socket.socket]
    ) -> None:
        # Making an environment has a limit of its own, and takes as long as the network does.
        python = await self._interpreter(instance) if placement == PROCESS else None
        limit_s = start_timeout_of(self.config.tree)
        # A remote server's own error at the limit says more.
        limit = asyncio.timeout(limit_s if placement != REMOTE else None)
        try:
            with starting_within(limit_s):
                async with limit:
                    if python is not None:
                        await self._spawn(instance, sockets, python)
                    elif placement == EMBEDDED:
                        await self._embed(instance, sockets)
                    else:
                        await self._reach(instance.name, limit_s)
                        asking = asyncio.create_task(self._ask_remote(instance.name))
                        self._watchers.append(asking)
        except TimeoutError:
            if not limit.expired():
                raise
            raise await self._not_ready(instance, limit_s) from None

    async def _not_ready(self, instance: InstanceConfig, limit_s: float) -> ServerDied:
        """Return the error of an instance that did not start in time, with the line at which its
        import stands, if it is still importing.
        """
        if died := await self._processes.import_too_long(instance.name):
            return died
        file = None if instance.folder is None else instance.folder / instance.entrypoint
        return (file and IMPORTS.unfinished(file, limit_s)) or ServerDied(
            f"{instance.name} was not ready within {limit_s:g} s",
            hint=f"read the log of this server; {LONGER} sets a longer limit",
        )

    def _sockets(
        self, instance: InstanceConfig, placement: str, *, exposed: bool
    ) -> list[socket.socket]:
        if placement == REMOTE or (placement == EMBEDDED and not exposed):
            return []
        count = instance.num_workers if placement == PROCESS else 1
        sockets = listen_for(instance, count, self.config)
        self._listening += sockets
        return sockets

    def _announce(
        self, instance: InstanceConfig, placement: str, sockets: Sequence[socket.socket]
    ) -> None:
        host = reachable_host(instance.host)
        urls = tuple(http_url(host, sock.getsockname()[1]) for sock in sockets)
        if placement == REMOTE:
            if instance.port is None:
                raise ConfigError(f"{instance.name} is a remote server: set its `host` and `port`")
            urls = (http_url(instance.host, instance.port),)
        self._targets[instance.name] = Target(instance.name, instance.type, urls)
        self.instances[instance.name] = RunningInstance(
            name=instance.name,
            server_type=instance.type,
            implementation=instance.implementation,
            placement=placement,
            urls=urls,
            started=time.time(),
            is_shipped=instance.is_shipped,
            role=self._role_of(instance.name),
        )

    def _role_of(self, model: str) -> str:
        """Return the role of a model that an environment asks; empty for any other instance."""
        if not self._is_asked_by(ServerType.RESOURCES, model):
            return ""
        return "policy and judge" if self._is_asked_by(ServerType.AGENT, model) else "judge"

    def _is_asked_by(self, server_type: ServerType, model: str) -> bool:
        servers = self.config.instances_of(server_type)
        return any(model in server.referenced(ServerType.MODEL) for server in servers)

    async def _embed(self, instance: InstanceConfig, sockets: Sequence[socket.socket]) -> None:
        with starting(instance.name):
            server = await asyncio.to_thread(build_server, instance, self.client)
            await self._ray.connect(instance.folder)
            server.secure(secret=self._secret, token=self._token)
            self._servers.append(server)
            local = self._profiled(server)
            app = await start_server(server, local=local)
        urls = self._targets[instance.name].urls
        self._targets[instance.name] = Target(instance.name, instance.type, urls, local)
        self._embedded[instance.name] = server
        for sock in sockets:
            self._watchers.append(
                asyncio.create_task(_serve_forever(app, sock), name=f"listener {instance.name}")
            )
        self.instances[instance.name].state = InstanceState.HEALTHY

    def _profiled(self, server: Server) -> "Server | ProfiledServer":
        """Return the server, or its profiling wrapper when its functions are timed."""
        return server if self._profiler is None else self._profiler.over(server, token=self._token)

    async def _interpreter(self, instance: InstanceConfig) -> Path:
        requirements = requirements_place(instance)
        if requirements is None:
            raise ConfigError(f"{instance.name} has no folder to start a process from")
        cache = cache_root(self.config.tree.get("uv_venv_dir"))
        return await interpreter_for(requirements, cache=cache)

    async def _spawn(
        self, instance: InstanceConfig, sockets: Sequence[socket.socket], python: Path
    ) -> None:
        for index, sock in enumerate(sockets):
            order = WorkOrder(
                instance=instance.name,
                tree=dict(self.config.tree),
                targets={t.name: (t.server_type, list(t.urls)) for t in self._targets.values()},
                fd=sock.fileno(),
                secret=self._secret,
                token=self._token,
                worker=index if instance.num_workers > 1 else None,
                ray=self._ray.encode(),
                setting_files={key: str(file) for key, file in instance.setting_files.items()},
                file="" if instance.file is None else str(instance.file),
                setting_references=dict(instance.setting_references),
            )
            await self._processes.start(self.instances[instance.name], order, python, sock)
        await self._wait_ready(instance.name)

    async def _reach(self, name: str, limit_s: float) -> None:
        running = self.instances[name]
        await await_remote(
            running,
            self.client.http,
            limit_s=limit_s,
            token=self._token,
            failure=lambda: self.failure,
        )
        running.state = InstanceState.HEALTHY

    async def _ask_remote(self, name: str) -> None:
        """Check every `REMOTE_EVERY_S` seconds whether a remote server answers, and record its
        state.
        """
        running = self.instances[name]
        answered_at = time.monotonic()
        while True:
            await asyncio.sleep(REMOTE_EVERY_S)
            if not await why_silent(running.urls[0], self.client.http):
                answered_at = time.monotonic()
                running.state, running.reason = InstanceState.HEALTHY, ""
            elif (silent_s := time.monotonic() - answered_at) >= STUCK_AFTER_S:
                running.state = InstanceState.STUCK
                running.reason = f"no answer from {running.urls[0]} for {silent_s:.0f} s"

    async def _wait_ready(self, name: str) -> None:
        running = self.instances[name]
        for url in running.urls:
            while await why_silent(url, self.client.http):
                if self.failure is not None:
                    raise self.failure
                await asyncio.sleep(0.05)
        running.state = InstanceState.HEALTHY

    # Stopping

    def _stop_limits(self, raised: type[BaseException] | None) -> StopLimits:
        """Return the limits of a fleet whose body raised `raised`, or ended when that is None."""
        is_cancelled = raised is not None and issubclass(raised, asyncio.CancelledError)
        limits = CANCELLED if is_cancelled else AT_END
        if self._profiler is None:
            return limits
        return replace(limits, processes_s=limits.processes_s + PROFILE_WITHIN_S)

    async def _stop(self, limits: StopLimits) -> None:
        """Run every step of stopping, even if earlier steps raise."""
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._ray.end)
            last_first.push_async_callback(self._ray.leave)
            last_first.push_async_callback(self._finish_profile)
            last_first.push_async_callback(self.client.http.aclose)
            last_first.callback(self._close_sockets)
            last_first.push_async_callback(self._stop_servers, limits.embedded_s)
            last_first.callback(self._processes.close)
            last_first.push_async_callback(self._stop_listening, limits.processes_s)

    async def _stop_listening(self, grace_s: float) -> None:
        """Stop the server processes, and close the embedded servers to other processes meanwhile."""
        await asyncio.gather(self._processes.stop(grace_s=grace_s), self._stop_watchers())

    async def _stop_watchers(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)

    async def _stop_servers(self, timeout_s: float) -> None:
        await asyncio.gather(*(stop_server(server, timeout_s) for server in self._servers))

    def _close_sockets(self) -> None:
        for sock in self._listening:
            sock.close()

    async def _finish_profile(self) -> None:
        if self._profiler is not None:
            await asyncio.to_thread(self._profiler.finish)


async def _serve_forever(app: ASGIApp, sock: socket.socket) -> None:
    async with serving(app, sock):
        await asyncio.Event().wait()


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
