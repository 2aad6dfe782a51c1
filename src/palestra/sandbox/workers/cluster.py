"""Workers on a Ray cluster: one host per core, and each host has its own worker process.

Ray transports the calls and places the hosts (`SPREAD`: over all nodes). On every node, the local
workers handle limits, kills and crashes. So after a killed call only a fork is needed there, not a
new Ray worker. Palestra must be installed on the nodes, in the same version.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar, final

from palestra.errors import ConfigError
from palestra.sandbox.workers.handle import STARVED_S
from palestra.sandbox.workers.keeper import START_LIMIT_S
from palestra.sandbox.workers.local import LocalWorkers
from palestra.sandbox.workers.outcomes import Outcome, WorkersBroken
from palestra.system import on_failure

T = TypeVar("T")

CONNECT_LIMIT_S: Final = 120.0
PLACE_LIMIT_S: Final = 300.0
"""The seconds that Ray may take to find a free core for a host and to start the host there."""


class RayWorkerHost:
    """A Ray actor with one worker process. Ray reserves one core of the node for it."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._workers = LocalWorkers(size=1, preload=preload)

    async def call(self, function: str, args: tuple[Any, ...], limit_s: float) -> Outcome | str:
        """Run a call and return its outcome. When the worker failed, return the error as text
        instead.
        """
        try:
            return await self._workers.call(function, *args, limit_s=limit_s)
        except WorkersBroken as error:
            return error.message

    async def ready(self) -> None:
        """Return once the host runs."""


@final
class RayWorkers:
    """Workers on a Ray cluster, at most one host per core. Hosts start when they are needed.

    The cores are counted at the first call. Any event loop may use this object, but only one at a
    time.
    """

    def __init__(self, address: str, *, preload: Sequence[str] = ()) -> None:
        if find_spec("ray") is None:
            raise ConfigError(
                f"ray_head_node_address is {address!r}, and Ray is not installed",
                hint="pip install 'palestra[ray]', or remove the address to use this machine",
            )
        self._address = address
        self._preload = tuple(preload)
        self._ray: Any = None
        self._size = 0
        self._connected_here = False
        self._hosts: set[Any] = set()
        self._idle: deque[Any] = deque()
        """Those of the hosts that wait for a call."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting = asyncio.Lock()
        self._places = asyncio.Semaphore(1)

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        """Run `function` on the cluster; see `Workers.call`."""
        async with await self._slots():
            # The one that has waited longest: its node's turn.
            host = self._idle.popleft() if self._idle else await self._place_host()
            healthy = False
            try:
                answer: Outcome | str = await self._within(
                    host.call.remote(function, args, limit_s),
                    limit_s + STARVED_S + START_LIMIT_S,
                    "a call on the Ray cluster",
                )
                if isinstance(answer, str):
                    raise WorkersBroken(answer)
                healthy = True
            finally:
                if healthy and host in self._hosts:
                    self._idle.append(host)
                else:
                    self._kill(host)
        return answer

    async def _slots(self) -> asyncio.Semaphore:
        """Return the semaphore for the calls of this event loop. Calls get a slot in the order in
        which they arrive.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._connecting, self._places = loop, asyncio.Lock(), asyncio.Semaphore(1)
            self._resize()
        async with self._connecting:
            if self._ray is None:
                self._ray = await self._within(
                    asyncio.to_thread(self._connect),
                    CONNECT_LIMIT_S,
                    f"connecting to the Ray cluster at {self._address}",
                )
                self._resize()
        return self._places

    def _resize(self) -> None:
        self._places = asyncio.Semaphore(max(1, self._size))

    def _connect(self) -> Any:
        ray: Any = import_module("ray")
        if not ray.is_initialized():
            ray.init(address=self._address, log_to_driver=False)
            self._connected_here = True
        self._size = int(ray.cluster_resources().get("CPU", 1))
        return ray

    async def _place_host(self) -> Any:
        if self._ray is None:
            raise WorkersBroken("the workers were closed while a call waited for its turn")
        spread = self._ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(RayWorkerHost)
        host = spread.remote(self._preload)
        self._hosts.add(host)
        with on_failure(lambda: self._kill(host)):
            await self._within(host.ready.remote(), PLACE_LIMIT_S, "a free core on the Ray cluster")
        return host

    def _kill(self, host: Any) -> None:
        """Kill a host, unless `close` has already killed it."""
        if host in self._hosts:
            self._hosts.discard(host)
            self._ray.kill(host)

    async def _within(self, waited: "Coroutine[Any, Any, T] | Any", limit_s: float, what: str) -> T:
        """Wait for `waited` at most `limit_s` seconds. Ray's exceptions are raised as
        WorkersBroken.
        """
        try:
            async with asyncio.timeout(limit_s):
                result: T = await waited
        except TimeoutError:
            raise WorkersBroken(f"waited {limit_s:.0f} s for {what}") from None
        except Exception as error:  # Ray has dozens of classes, and connecting raises more
            raise WorkersBroken(f"{what} failed: {type(error).__name__}: {error}") from error
        return result

    async def close(self) -> None:
        """Kill all hosts, including those of running calls. Disconnect from Ray if this object made
        the connection.
        """
        hosts, self._hosts = self._hosts, set()
        self._idle.clear()
        ray, self._ray = self._ray, None
        if ray is None:
            return
        for host in hosts:
            await asyncio.to_thread(ray.kill, host)
        if self._connected_here:
            self._connected_here = False
            await asyncio.to_thread(ray.shutdown)
