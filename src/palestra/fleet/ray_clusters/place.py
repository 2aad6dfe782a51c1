"""Where a fleet's Ray is: at the address that the configuration names, or in a cluster of its own.

A cluster of the fleet's own is made when the first of its processes imports Ray, by a keeper that
ends with the fleet. Processes that use Ray reach it through `RAY_ADDRESS`, which `ray.init()` reads.
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
    """Calls `before_import` once, when Ray is about to be imported; looking for it is no import."""

    def __init__(self, before_import: Callable[[], None]) -> None:
        self._before_import = before_import

    def begin(self) -> None:
        """Watch the imports of this process."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Watch no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Ray's own, whose loader says so first."""
        if fullname != RAY:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, self)
        return spec

    def announce(self) -> None:
        """It is being imported."""
        self.end()
        self._before_import()


class _Announcing(Loader):
    """The loader of a module, which announces that it executes it."""

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
"""What Ray itself reads where it is given no address."""
AUTH_MODE: Final = "RAY_AUTH_MODE"
HANDED_DOWN: Final = "PALESTRA_FLEET_RAY"
"""Tells the worker processes of a server where the fleet's Ray is."""
REACH_LIMIT_S: Final = 5.0
CONNECT_LIMIT_S: Final = 60.0
START_LIMIT_S: Final = 100.0
LOCK_LIMIT_S: Final = 2 * START_LIMIT_S
"""For another process of the fleet to start it."""
END_LIMIT_S: Final = 10.0
LOOK_EVERY_S: Final = 0.05
_LOG_LINES: Final = 5
ADDRESS: Final = "address"
"""The file in which the keeper says where its cluster is."""
LOG: Final = "log"
PID: Final = "pid"
_START_ONE: Final = f"start one with `ray start --head` and name it: ++{RAY_ADDRESS}=<host>:<port>"
_IMPORT: Final = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)


@final
class RayPlace:
    """The Ray of one fleet, in one of its processes.

    `address`: of the cluster that the configuration or the environment names, else empty.
    `folder`: of the fleet's own cluster; it exists while that does.
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
        """The place for a fleet that this process starts."""
        address = str(tree.get(RAY_ADDRESS) or os.environ.get(VARIABLE) or _address_here())
        # Short, and not the temporary folder of this process: Ray makes sockets below it.
        top = Path(os.environ.get("RAY_TMPDIR") or "/tmp")  # noqa: S108  # named after a random id
        return cls(address, top / f"palestra-ray-{new_id()[:12]}", os.getpid())

    def encode(self) -> str:
        """For another process of the fleet."""
        return json.dumps([self._address, str(self.folder), self._fleet_pid])

    @classmethod
    def decode(cls, text: str) -> Self:
        """The inverse of `encode`."""
        address, folder, fleet_pid = json.loads(text)
        return cls(address, Path(folder), fleet_pid)

    def settings(self) -> dict[str, str]:
        """Of the fleet's own cluster; none while there is none."""
        address = self._own_address()
        return {RAY_ADDRESS: address} if address else {}

    def _own_address(self) -> str:
        return (self._kept() or [""])[0]

    def _kept(self) -> list[str]:
        """What the keeper says: the address, and how Ray knows who may join. Empty without one."""
        try:
            return (self.folder / ADDRESS).read_text().split()
        except OSError:
            return []

    async def check(self, tree: ConfigTree) -> None:
        """Raise ConfigError when nothing listens at the address that the configuration names.

        What the environment names is only for servers that import Ray.
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
        """From now on, whoever imports Ray in this process finds the cluster.

        Its address is then in `tree`, the configuration of this process.
        """
        self._tree = tree
        os.environ[HANDED_DOWN] = self.encode()
        self._watch = ImportWatch(self._before_import)
        self._watch.begin()

    def _before_import(self) -> None:
        self._imported = self._address or self._made()
        self._before = {name: os.environ.get(name) for name in (VARIABLE, AUTH_MODE)}
        if self._kept()[1:]:
            os.environ[AUTH_MODE] = self._kept()[1]
        os.environ[VARIABLE] = self._imported
        self._tree[RAY_ADDRESS] = self._imported

    async def connect(self, folder: Path | None) -> None:
        """Connect this process if the server of `folder`, which was loaded, imports Ray.

        Raises ConfigError when that fails.
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
        """Undo what `notice_import` and `connect` did to this process."""
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
        """End the process `pid` if it is the keeper: the number may be another's by now."""
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

    def _made(self) -> str:
        """The address of the fleet's own cluster, which is started when there is none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("wb") as file:
            try:
                lock(file, wait_s=LOCK_LIMIT_S)
            except BlockingIOError as error:
                raise ConfigError(
                    "a server imports Ray, and another one has not started this fleet's Ray cluster "
                    f"within {LOCK_LIMIT_S:g} s",
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
            "a server imports Ray, and a Ray cluster for this fleet did not start:\n"
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
    """In a worker process of a server: whoever imports Ray finds the fleet's cluster."""
    if text := os.environ.get(HANDED_DOWN):
        RayPlace.decode(text).notice_import(tree)


def _address_here() -> str:
    """The cluster that this process is connected to: a trainer's is its fleet's, too."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    return str(ray.get_runtime_context().gcs_address)


def _imports_ray(folder: Path) -> bool:
    return any(_IMPORT.search(path.read_text(errors="replace")) for path in folder.glob("*.py"))
