"""Workers on this machine's cores, and `open_workers`, which chooses this machine or a Ray cluster."""

import asyncio
import weakref
from collections.abc import Sequence
from typing import Any, Final, final

from palestra.sandbox.processors import usable_processors
from palestra.sandbox.workers.frames import call_frame
from palestra.sandbox.workers.handle import WorkerHandle
from palestra.sandbox.workers.keeper import Keeper
from palestra.sandbox.workers.outcomes import Outcome, Workers, WorkersBroken

MEMORY_MIB: Final = 1024
CALLS: Final = 2_000
GROWTH_MIB: Final = 256


@final
class LocalWorkers:
    """Worker processes on this machine, started when they are needed; see the package's docstring.

    `size`: how many calls run at the same time; by default one per usable core. `preload`: modules
    to import, or `module:function` to call, once before any call. `memory_mib`: the memory that a
    call may allocate. A worker is replaced after `calls` calls, or when its memory has grown by
    `growth_mib`.

    Any event loop may use this object, but only one at a time. The processes outlive an event loop.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        preload: Sequence[str] = (),
        memory_mib: int = MEMORY_MIB,
        calls: int = CALLS,
        growth_mib: int = GROWTH_MIB,
    ) -> None:
        self._size = size or usable_processors()
        self._keeper = Keeper(
            preload=preload, memory_mib=memory_mib, calls=calls, growth_mib=growth_mib
        )
        self._idle: list[WorkerHandle] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(self._size)
        self._closings = 0
        # Whoever forgets to close it leaves nothing behind either.
        weakref.finalize(self, _end, self._keeper, self._idle)

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        """Run `function` in a worker; see `Workers.call`."""
        frame = call_frame(function, args)
        closings = self._closings
        async with self._slots():
            if closings != self._closings:
                # It would start a nursery that nobody ends.
                raise WorkersBroken("the workers were closed while a call waited for its turn")
            worker = self._waiting_one() or await self._keeper.fork()
            try:
                outcome = await worker.run(frame, limit_s)
            finally:
                if worker.usable:
                    self._idle.append(worker)
                else:
                    worker.kill()
        return outcome

    def _waiting_one(self) -> WorkerHandle | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive():
                return worker
            worker.kill()
        return None

    def _slots(self) -> asyncio.Semaphore:
        """Return the semaphore for the calls of this event loop. Calls get a slot in the order in
        which they arrive.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._places = loop, asyncio.Semaphore(self._size)
        return self._places

    async def close(self) -> None:
        """End every process. A later call starts new ones."""
        self._closings += 1
        await asyncio.to_thread(_end, self._keeper, self._idle)


def _end(keeper: Keeper, idle: list[WorkerHandle]) -> None:
    while idle:
        idle.pop().kill()
    keeper.end()


def open_workers(*, ray_address: str | None = None, preload: Sequence[str] = ()) -> Workers:
    """Return workers on this machine's cores, or on the cores of the Ray cluster at `ray_address`.

    No process starts, and Ray is not imported, before the first call. Raises ConfigError: an
    address is given and Ray is not installed.
    """
    if not ray_address:
        return LocalWorkers(preload=preload)
    from palestra.sandbox.workers.cluster import RayWorkers

    return RayWorkers(ray_address, preload=preload)
