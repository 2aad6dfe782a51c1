"""The Ray cluster of a fleet: at the address that the configuration names, or the fleet's own
cluster.

The fleet's own cluster starts when the first of its processes imports Ray. A keeper process runs
the cluster and ends with the fleet. Other processes find the cluster through `RAY_ADDRESS`, which
`ray.init()` reads.
"""

import asyncio
import importlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self, final

from palestra.config import ConfigTree
from palestra.errors import ConfigError
from palestra.system import Process, lock, start
from palestra.transport import new_id

RAY: Final = "ray"


@final
class ImportWatch(MetaPathFinder):
    """An import hook that calls `before_import` once, just before Ray is imported. Only searching
    for Ray (`find_spec`) does not call it.
    """

    def __init__(self, before_import: Callable[[], None]) -> None:
        self._before_import = before_import

    def begin(self) -> None:
        """Start to watch the imports of this process."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Stop watching the imports."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return Ray's module spec, with a loader that calls `announce` before it executes Ray.
        None for other modules.
        """
        if fullname != RAY:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, self)
        return spec

    def announce(self) -> None:
        """Stop watching and call `before_import`, because Ray is being imported."""
        self.end()
        self._before_import()


class _Announcing(Loader):
    """A module loader that calls `ImportWatch.announce` before it executes the module."""

    def __init__(self, loader: Any, watch: ImportWatch) -> None:
        self._loader = loader
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._watch.announce()
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)


RAY_ADDRESS: Final = "ray_head_node_address"
VARIABLE: Final = "RAY_ADDRESS"
"""The environment variable that Ray reads when it is called without an address."""
AUTH_MODE: Final = "RAY_AUTH_MODE"
HANDED_DOWN: Final = "PALESTRA_FLEET_RAY"
"""The environment variable that holds the fleet's `RayPlace` for the worker processes of a server.
"""
REACH_LIMIT_S: Final = 5.0
CONNECT_LIMIT_S: Final = 60.0
START_LIMIT_S: Final = 100.0
LOCK_LIMIT_S: Final = 2 * START_LIMIT_S
"""The seconds to wait while another process of the fleet starts the cluster."""
END_LIMIT_S: Final = 10.0
LOOK_EVERY_S: Final = 0.05
_LOG_LINES: Final = 5
ADDRESS: Final = "address"
"""The file into which the keeper writes the cluster's address."""
LOG: Final = "log"
PID: Final = "pid"
_START_ONE: Final = f"start one with `ray start --head` and name it: ++{RAY_ADDRESS}=<host>:<port>"
_IMPORT: Final = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)


@final
class RayPlace:
    """The Ray cluster of one fleet, as one of the fleet's processes uses it.

    `address`: the address of the cluster that the configuration or the environment names; else
    empty. `folder`: the folder of the fleet's own cluster, which exists as long as the cluster
    does.
    """

    def __init__(self, address: str, folder: Path, fleet_pid: int) -> None:
        self._address = address
        self.folder = folder
        self._fleet_pid = fleet_pid
        self._imported = ""
        """The cluster's address, once Ray was imported here."""
        self._connected = False
        self._connecting = asyncio.Lock()
        self._watch: ImportWatch | None = None
        self._tree: dict[str, Any] = {}
        self._before: dict[str, str | None] = {}
        """The variables of this process that were changed, as they were."""

    @classmethod
    def of_fleet(cls, tree: ConfigTree) -> Self:
        """Return the `RayPlace` for a fleet that this process starts."""
        address = str(tree.get(RAY_ADDRESS) or os.environ.get(VARIABLE) or _address_here())
        # Short, and not the temporary folder of this process: Ray makes sockets below it.
        top = Path(os.environ.get("RAY_TMPDIR") or "/tmp")  # noqa: S108  # named after a random id
        return cls(address, top / f"palestra-ray-{new_id()[:12]}", os.getpid())

    def encode(self) -> str:
        """Return this object as text, for another process of the fleet."""
        return json.dumps([self._address, str(self.folder), self._fleet_pid])

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the `RayPlace` from the text of `encode`."""
        address, folder, fleet_pid = json.loads(text)
        return cls(address, Path(folder), fleet_pid)

    def settings(self) -> dict[str, str]:
        """Return the setting with the address of the fleet's own cluster. Empty when the fleet has
        no cluster of its own.
        """
        address = self._own_address()
        return {RAY_ADDRESS: address} if address else {}

    def _own_address(self) -> str:
        return (self._read_address() or [""])[0]

    def _read_address(self) -> list[str]:
        """Read the keeper's file: the cluster's address, and Ray's authentication mode. Empty when
        no cluster runs.
        """
        try:
            return (self.folder / ADDRESS).read_text().split()
        except OSError:
            return []

    async def check(self, tree: ConfigTree) -> None:
        """Raise ConfigError when no cluster answers at the address that the configuration names.

        An address from the environment variable is not checked: only servers that import Ray use
        it.
        """
        address = str(tree.get(RAY_ADDRESS) or "")
        if address in {"", "auto", "local"}:
            return  # for Ray to resolve
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if not port.isdecimal():
            raise self._unusable("an address is <host>:<port>, auto or local")
        try:
            async with asyncio.timeout(REACH_LIMIT_S):
                _, writer = await asyncio.open_connection(host, int(port))
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or f"no answer within {REACH_LIMIT_S:g} s"
            raise self._unusable(reason) from error
        writer.close()

    def notice_import(self, tree: dict[str, Any]) -> None:
        """From now on, start or find the cluster when code of this process imports Ray.

        The cluster's address is then also set in `tree`, the configuration of this process.
        """
        self._tree = tree
        os.environ[HANDED_DOWN] = self.encode()
        self._watch = ImportWatch(self._before_import)
        self._watch.begin()

    def _before_import(self) -> None:
        self._imported = self._address or self._start_cluster()
        self._before = {name: os.environ.get(name) for name in (VARIABLE, AUTH_MODE)}
        if self._read_address()[1:]:
            os.environ[AUTH_MODE] = self._read_address()[1]
        os.environ[VARIABLE] = self._imported
        self._tree[RAY_ADDRESS] = self._imported

    async def connect(self, folder: Path | None) -> None:
        """Connect this process to the cluster if the loaded server in `folder` imports Ray.

        Raises ConfigError when the connection fails.
        """
        if sys.modules.get("ray") is None:
            return
        try:
            # Another server of this process may be importing it at this moment: wait for that.
            ray: Any = await asyncio.to_thread(importlib.import_module, "ray")
        except Exception:  # that other one's import has failed, which is told of that one
            return
        async with self._connecting:
            await self._connect(ray, folder)

    async def _connect(self, ray: Any, folder: Path | None) -> None:
        if ray.is_initialized():
            return  # its author found the address in the environment
        if not self._imported:
            # Another fleet's server imported it before, or a trainer.
            if folder is None or not await asyncio.to_thread(_imports_ray, folder):
                return
            await asyncio.to_thread(self._before_import)
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                # In a thread: on the main one, Ray takes the signals of the process.
                await asyncio.to_thread(ray.init, ignore_reinit_error=True, logging_level="error")
        except TimeoutError as error:
            raise self._unusable(f"no connection within {CONNECT_LIMIT_S:g} s") from error
        except Exception as error:  # Ray has dozens of classes
            raise self._unusable(f"{type(error).__name__}: {error}") from error
        self._connected = True

    async def leave(self) -> None:
        """Undo the changes that `notice_import` and `connect` made to this process."""
        if self._watch is not None:
            self._watch.end()
        os.environ.pop(HANDED_DOWN, None)
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if self._connected:
            self._connected = False
            await asyncio.to_thread(sys.modules["ray"].shutdown)

    async def end(self) -> None:
        """End the fleet's own cluster, if there is one."""
        if self.folder.exists():
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        try:
            with suppress(OSError, ValueError):  # there is no keeper, or not any more
                self._end_keeper(int((self.folder / PID).read_text()))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_keeper(self, pid: int) -> None:
        """End the process `pid` if it is the keeper. Another process may have got this pid since."""
        keeper = Process.of(pid)
        # Read after its birth, and so of the process that is signalled while that is the same.
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if os.fsencode(self.folder) not in arguments:
            return
        until = time.monotonic() + END_LIMIT_S
        with suppress(ProcessLookupError):  # it has just ended
            while not keeper.is_gone:
                if time.monotonic() >= until:
                    os.killpg(pid, signal.SIGKILL)
                    break
                # Again and again: while it starts, Ray takes this signal for itself.
                os.kill(pid, signal.SIGTERM)
                time.sleep(LOOK_EVERY_S)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def _start_cluster(self) -> str:
        """Return the address of the fleet's own cluster, and start the cluster first when it does
        not run.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("wb") as file:
            try:
                lock(file, wait_s=LOCK_LIMIT_S)
            except BlockingIOError as error:
                raise ConfigError(
                    "a server needs Ray, but another server did not start the Ray cluster of "
                    f"this fleet within {LOCK_LIMIT_S:g} s",
                    hint=_START_ONE,
                ) from error
            return self._own_address() or self._started()

    def _started(self) -> str:
        command = [sys.executable, "-P", "-m", "palestra.fleet.ray_clusters.keeper"]
        with (self.folder / LOG).open("wb") as log:
            # In a session of its own: it outlives this server, and ends with the fleet.
            keeper = start(
                [*command, str(self.folder), str(self._fleet_pid)], stdout=log, stderr=log
            )
        (self.folder / PID).write_text(str(keeper.pid))
        until = time.monotonic() + START_LIMIT_S
        while keeper.poll() is None and time.monotonic() < until:
            if address := self._own_address():
                return address
            time.sleep(LOOK_EVERY_S)
        keeper.terminate()
        lines = (self.folder / LOG).read_text(errors="replace").splitlines()[-_LOG_LINES:]
        raise ConfigError(
            "a server needs Ray, but a Ray cluster for this fleet did not start:\n"
            + "\n".join(f"  | {line}" for line in lines),
            hint=_START_ONE,
        )

    def _unusable(self, reason: str) -> ConfigError:
        address = self._address or self._imported
        return ConfigError(
            f"the Ray cluster at {address} cannot be used: {reason}",
            hint=f"start it (`ray start --head`), correct ++{RAY_ADDRESS} (or the variable {VARIABLE}), or "
            "leave both out: servers that import Ray get a cluster on this machine. A cluster that "
            "asks for a token needs RAY_AUTH_MODE=token",
        )


def notice_ray_here(tree: dict[str, Any]) -> None:
    """Call `RayPlace.notice_import` in a worker process of a server, so that code which imports Ray
    finds the fleet's cluster.
    """
    if text := os.environ.get(HANDED_DOWN):
        RayPlace.decode(text).notice_import(tree)


def _address_here() -> str:
    """Return the address of the cluster to which this process is connected, or empty. A fleet in a
    trainer's process uses the trainer's cluster.
    """
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    return str(ray.get_runtime_context().gcs_address)


def _imports_ray(folder: Path) -> bool:
    return any(_IMPORT.search(path.read_text(errors="replace")) for path in folder.glob("*.py"))
