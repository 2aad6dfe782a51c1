"""A fleet: every instance of a configuration, running, watched, and stopped as one.

    async with Fleet(config, placement="embedded") as fleet:
        ... fleet.client ...

Entering returns when every server is ready; leaving stops all of them, whatever happened. When
a server process ends by itself, `fleet.failure` is set and `fleet.watch()` raises.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from palestra.config import InstanceConfig, Redactor, ResolvedConfig
from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    InfraError,
    PalestraError,
    RowIdentity,
    ServerDied,
)
from palestra.fleet.build import build_server, profiler_for, server_client, start_server, starting
from palestra.fleet.child import Child, ChildExit
from palestra.fleet.importing import LONGER, import_here, start_timeout_of, starting_within
from palestra.fleet.instance import STUCK_AFTER_S, InstanceState, RunningInstance
from palestra.fleet.orders import WorkOrder
from palestra.fleet.process_watch import ProcessWatch
from palestra.fleet.ray_clusters import RayPlace
from palestra.fleet.sockets import (
    LOOPBACK,
    HeadAddress,
    holder_of,
    http_url,
    listen,
    listen_in_range,
    raise_descriptor_limit,
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
from palestra.system import LOOK_EVERY_S, Pulse
from palestra.transport import ASGIApp, HttpRequest, Target, new_id

if TYPE_CHECKING:
    from palestra.fleet.server_profiles import ProfiledServer

EMBEDDED, PROCESS, REMOTE = "embedded", "process", "remote"
STOP_TIMEOUT_S = 2.0
REMOTE_EVERY_S = 3.0


def placement_of(instance: InstanceConfig, default: str) -> str:
    """Where `instance` is to live. Raises ConfigError for a placement that cannot be."""
    if instance.placement is not None:
        return instance.placement
    if default == EMBEDDED and (place := requirements_place(instance)) is not None:
        needs_own = instance.num_workers > 1 or unsatisfied(requirements_of(place))
        return PROCESS if needs_own else EMBEDDED
    return default


@final
class Fleet:
    """All servers of one configuration.

    `default_placement` applies where a config names none; when it is None, too, servers are
    embedded.
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
                f"a fleet is made of a configuration that was loaded, and not of a "
                f"{type(config).__name__}",
                hint="palestra.config.load_config(config_paths=[…]) loads one",
            )
        self.config = config
        self._default = default_placement
        self._redact = Redactor(config.secrets)
        self._on_line = on_line or _ignore
        self._token = str(config.tree.get("fleet_token") or "")
        self._secret = new_id()
        self._targets: dict[str, Target] = {}
        self._servers: list[Server] = []
        self._children: list[Child] = []
        self._listening: list[socket.socket] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()
        self.failure: PalestraError | None = None
        self.ending: ChildExit | None = None
        """How the first process ended that ended by itself."""
        self.instances: dict[str, RunningInstance] = {}
        self._embedded: dict[str, Server] = {}
        self._ray = RayPlace.of_fleet(config.tree)
        self._profiler = profiler_for(config.tree, shared=True)
        self._tree = dict(config.tree)
        self.client = server_client(self._targets, self._tree, token=self._token)
        self._watches: list[ProcessWatch] = []
        self.client.overrun_of = self._overrun_of
        self.client.standing_still = self._standing_still

    async def __aenter__(self) -> Self:
        raise_descriptor_limit()
        self._check_hosts()
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def place_by_default(self, placement: str) -> None:
        """Place servers there where neither the config nor the fleet's maker names a placement.

        For the owner of a fleet that he did not make; call it before the fleet is entered.
        """
        self._default = self._default or placement

    async def watch(self) -> None:
        """Wait until a server process ends by itself, and raise the `ServerDied` that says how."""
        await self._failed.wait()
        if self.failure is not None:
            raise self.failure

    def server(self, name: str) -> Server | None:
        """The server object of an embedded instance."""
        return self._embedded.get(name)

    @property
    def ray_folder(self) -> Path:
        """Of the fleet's own Ray cluster, if it gets one: for whoever has to end the fleet."""
        return self._ray.folder

    def added_settings(self) -> dict[str, str]:
        """Settings that the fleet made by itself: the address of its own Ray cluster, if it has one."""
        return self._ray.settings()

    # Starting

    async def _start(self) -> None:
        await self._ray.check(self._tree)
        placed = [
            (instance, placement_of(instance, self._default or EMBEDDED))
            for instance in self.config.instances.values()
        ]
        exposed = any(placement == PROCESS for _, placement in placed)
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
        self._watchers.append(asyncio.create_task(self._look_after(), name="watch over processes"))
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
        limit = asyncio.timeout(limit_s)
        try:
            with starting_within(limit_s):
                async with limit:
                    if python is not None:
                        await self._spawn(instance, sockets, python)
                    elif placement == EMBEDDED:
                        await self._embed(instance, sockets)
                    else:
                        await self._wait_ready(instance.name)
                        asking = asyncio.create_task(self._ask_remote(instance.name))
                        self._watchers.append(asking)
        except TimeoutError:
            if not limit.expired():
                raise
            raise await self._not_ready(instance, limit_s) from None

    async def _not_ready(self, instance: InstanceConfig, limit_s: float) -> ServerDied:
        """Why an instance did not start in time: the line on which its import stands, if it does."""
        for watch in self._watches:
            if watch.instance == instance.name and (died := await watch.import_too_long()):
                return died
        file = None if instance.folder is None else instance.folder / instance.entrypoint
        return (file and import_here(file, limit_s)) or ServerDied(
            f"{instance.name} was not ready within {limit_s:g} s",
            hint=f"its log may say why; {LONGER} gives it longer",
        )

    def _check_hosts(self) -> None:
        """Anything reachable from outside needs the fleet's token."""
        outside = [
            f"{instance.name} ({instance.host})"
            for instance in self.config.instances.values()
            if instance.placement != REMOTE and instance.host not in LOOPBACK
        ]
        if outside and not self._token:
            raise ConfigError(
                f"not on loopback, and no token to protect it: {', '.join(outside)}",
                hint="set ++fleet_token=<a long random text>, the same for every command",
            )

    def _sockets(
        self, instance: InstanceConfig, placement: str, *, exposed: bool
    ) -> list[socket.socket]:
        if placement == REMOTE or (placement == EMBEDDED and not exposed):
            return []
        found: list[socket.socket] = []
        for index in range(instance.num_workers if placement == PROCESS else 1):
            if instance.port is not None and index == 0:
                found.append(_listen_on(instance))
            else:
                found.append(self._any_port(instance.host))
            self._listening.append(found[-1])
        return found

    def _any_port(self, host: str) -> socket.socket:
        tree = self.config.tree
        explicit = {i.port for i in self.config.instances.values() if i.port is not None}
        disallowed = set(tree.get("disallowed_ports") or ())
        return listen_in_range(
            host,
            int(tree.get("port_range_low") or 10001),
            int(tree.get("port_range_high") or 20000),
            explicit | disallowed | {HeadAddress.from_tree(tree).port},
        )

    def _announce(
        self, instance: InstanceConfig, placement: str, sockets: Sequence[socket.socket]
    ) -> None:
        host = reachable_host(instance.host)
        urls = tuple(http_url(host, sock.getsockname()[1]) for sock in sockets)
        if placement == REMOTE:
            if instance.port is None:
                raise ConfigError(f"{instance.name} is remote: its `host` and `port` are needed")
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
        )

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
        """The server, or what stands before it when its functions are timed."""
        return server if self._profiler is None else self._profiler.over(server, token=self._token)

    async def _interpreter(self, instance: InstanceConfig) -> Path:
        place = requirements_place(instance)
        if place is None:
            raise ConfigError(f"{instance.name} has no folder to start a process from")
        cache = cache_root(self.config.tree.get("uv_venv_dir"))
        return await interpreter_for(place, cache=cache)

    async def _spawn(
        self, instance: InstanceConfig, sockets: Sequence[socket.socket], python: Path
    ) -> None:
        children = [
            await self._spawn_worker(instance, index, python, sock)
            for index, sock in enumerate(sockets)
        ]
        self.instances[instance.name].pid = children[0].pid
        await self._wait_ready(instance.name)

    async def _spawn_worker(
        self, instance: InstanceConfig, index: int, python: Path, sock: socket.socket
    ) -> Child:
        name = instance.name if instance.num_workers == 1 else f"{instance.name}#{index}"
        log_dir = self.config.tree.get("nemo_gym_log_dir")
        with Pulse.create_for_program() as (pulse, descriptors):
            order = WorkOrder(
                instance=instance.name,
                tree=dict(self.config.tree),
                targets={t.name: (t.server_type, list(t.urls)) for t in self._targets.values()},
                fd=sock.fileno(),
                secret=self._secret,
                token=self._token,
                worker=index if instance.num_workers > 1 else None,
                pulse=descriptors,
                ray=self._ray.encode(),
            )
            child = await Child.spawn(
                name,
                [str(python), "-u", "-P", "-m", "palestra.fleet.worker", order.process_name],
                order=order.encode(),
                on_line=self._on_line,
                redact=self._redact,
                pass_fds=(sock.fileno(), *descriptors),
                log_path=_log_path(log_dir, name),
            )
        sock.close()
        self._children.append(child)
        self._watches.append(ProcessWatch(self.instances[instance.name], child, pulse))
        self._watchers.append(asyncio.create_task(self._watch(instance.name, child)))
        return child

    async def _watch(self, name: str, child: Child) -> None:
        ending = await child.ended()
        if child.stopping:
            return
        running = self.instances[name]
        before_ready = running.state is InstanceState.STARTING
        running.state = InstanceState.DEAD
        running.reason = ending.how
        if self.ending is None:
            self.ending = ending
        if self.failure is None:
            self.failure = ending.as_error(before_ready=before_ready)
        self._failed.set()

    async def _look_after(self) -> None:
        """Watch the processes' event loops: tell which stand still, and end what holds one too long."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for watch in self._watches:
                call = watch.look()
                if call is not None and self.failure is None:
                    await watch.take_stacks()
                    if watch.look() != call:
                        continue  # it has returned while its stack came
                    self.failure = watch.died_of(call)
                    self._failed.set()
                    # Whoever collects stops first: to the others this is no failure of theirs.
                    await asyncio.sleep(LOOK_EVERY_S)
                    watch.child.kill()
                else:
                    await watch.tell_state()

    async def _ask_remote(self, name: str) -> None:
        """Ask a server that runs elsewhere whether it answers, and keep its state."""
        running = self.instances[name]
        answered = time.monotonic()
        while True:
            await asyncio.sleep(REMOTE_EVERY_S)
            if await self._answers(running.urls[0]):
                answered = time.monotonic()
                running.state, running.reason = InstanceState.HEALTHY, ""
            elif (silent_s := time.monotonic() - answered) >= STUCK_AFTER_S:
                running.state = InstanceState.STUCK
                running.reason = f"no answer from {running.urls[0]} for {silent_s:.0f} s"

    def _overrun_of(self, row: RowIdentity) -> CallError | None:
        errors = (watch.overrun_of(row) for watch in self._watches)
        return next((error for error in errors if error is not None), None)

    def _standing_still(self) -> list[str]:
        return [sentence for watch in self._watches if (sentence := watch.standing_still())]

    async def _wait_ready(self, name: str) -> None:
        running = self.instances[name]
        for url in running.urls:
            while not await self._answers(url):
                if self.failure is not None:
                    raise self.failure
                await asyncio.sleep(0.05)
        running.state = InstanceState.HEALTHY

    async def _answers(self, url: str) -> bool:
        try:
            reply = await self.client.http.send(
                HttpRequest("GET", url + "/", timeout_s=2, direct=True)
            )
        except (InfraError, DeadlineExceeded):
            return False
        return reply.status < 500

    # Stopping

    async def _stop(self) -> None:
        """Take every step, whatever those before it raise."""
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._ray.end)
            last_first.push_async_callback(self._ray.leave)
            last_first.push_async_callback(self._finish_profile)
            last_first.push_async_callback(self.client.http.aclose)
            last_first.callback(self._close_sockets)
            last_first.push_async_callback(self._stop_servers)
            last_first.callback(self._close_watches)
            last_first.push_async_callback(self._stop_watchers)
            last_first.push_async_callback(self._stop_children)

    async def _stop_children(self) -> None:
        for child in self._children:
            child.stopping = True
        await asyncio.gather(*(child.stop() for child in self._children), return_exceptions=True)

    async def _stop_watchers(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)

    def _close_watches(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(_stop_server(server) for server in self._servers))

    def _close_sockets(self) -> None:
        for sock in self._listening:
            sock.close()

    async def _finish_profile(self) -> None:
        if self._profiler is not None:
            await asyncio.to_thread(self._profiler.finish)


async def _stop_server(server: Server) -> None:
    """An author's `stop` may fail or hang: neither keeps the fleet from ending."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await server.shut_down()


async def _serve_forever(app: ASGIApp, sock: socket.socket) -> None:
    async with serving(app, sock):
        await asyncio.Event().wait()


def _listen_on(instance: InstanceConfig) -> socket.socket:
    port = instance.port or 0
    try:
        return listen(instance.host, port)
    except OSError as error:
        holder = holder_of(port) or "another program"
        raise ConfigError(
            f"{instance.name} cannot listen on {instance.host}:{port}: {error.strerror}; "
            f"{holder} holds it",
            hint="choose another port, or leave `port` out to get a free one",
        ) from error


def _log_path(log_dir: Any, name: str) -> Path | None:
    if not log_dir:
        return None
    folder = Path(str(log_dir))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _ignore(_name: str, _line: str) -> None:
    return None
