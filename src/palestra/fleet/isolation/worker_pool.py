"""A pool of workers without state: any free worker takes the next call."""

import asyncio
import contextlib
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from palestra.errors import InfraError
from palestra.fleet.isolation.authors_keeper import Forking
from palestra.fleet.isolation.link import Killed, Link
from palestra.fleet.isolation.wire import NO_MEMORY
from palestra.sandbox import usable_processors

SOON_S: Final = 0.05
"""The seconds that a call waits before another worker is started for it, when there is already one
per core."""
MOST: Final = 32
MOST_OF_ALL: Final = 256
"""The maximum number of workers when `MOST` are busy and none has answered for `STALLED_S`: they
probably hang until their deadlines."""
STALLED_S: Final = 0.5
AT_A_TIME: Final = 8
SLOW_S: Final = 1.0
SLOW_NICENESS: Final = 15
"""The nice value of workers whose calls have run for `SLOW_S` while others wait. Such calls may
hang, and would occupy the cores."""
IDLE_S: Final = 10.0
"""After this many seconds, idle workers beyond one per core are ended."""


@final
class WorkerPool:
    """A pool that grows with the number of waiting calls, within limits. Use it from one event loop
    only.
    """

    def __init__(self, keeper: Forking) -> None:
        self._keeper = keeper
        weakref.finalize(self, keeper.end)
        self._size = usable_processors()
        self._idle: list[Link] = []
        self._links: set[Link] = set()
        self._waiting: deque[asyncio.Future[Link]] = deque()
        self._forking = 0
        self._last_answer = 0.0
        self._busy: dict[Link, float] = {}
        """When their calls began, the oldest first."""
        self._slow: set[Link] = set()
        """Those that give way to others, until their calls end, and they with them."""
        self._growing: asyncio.TimerHandle | None = None
        self._shrinking: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start one worker. Raises WorkersBroken when no worker can be started."""
        if not self._links:
            self._free(await self._fork())

    async def call(self, frame_of: Callable[[int], bytes], limit_s: float | None) -> list[Any]:
        """Run a call in a worker and return its answer. `frame_of`: returns the call's frame for a
        call number.

        Raises WorkerGone when the worker ends, and InfraError when every worker was busy until the
        limit.
        """
        due = None if limit_s is None else time.monotonic() + limit_s
        while True:
            link = await self._next(limit_s)
            is_first = link.is_new
            left_s = None if due is None else max(0.0, due - time.monotonic())
            answer = await self._call(link, frame_of, left_s)
            if answer[0] != NO_MEMORY or is_first:
                return answer
            # Earlier calls may have left it too little: a new worker decides.

    async def _call(
        self, link: Link, frame_of: Callable[[int], bytes], left_s: float | None
    ) -> list[Any]:
        number = link.number()
        timer = None
        try:
            frame = frame_of(number)
            if left_s is not None:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(left_s, self._stop, link, number, left_s)
            self._busy[link] = time.monotonic()
            answer = await link.answer(number, frame)
            self._last_answer = time.monotonic()
        except asyncio.CancelledError:
            link.end(Killed())
            raise
        else:
            if answer[0] == NO_MEMORY:
                link.end(Killed())
            return answer
        finally:
            if timer is not None:
                timer.cancel()
            self._busy.pop(link, None)
            if link in self._slow:
                link.end(Killed())
            self._free(link)

    def _stop(self, link: Link, number: int, ran_s: float) -> None:
        self._keep(link.stop_hung(number, ran_s))

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next(self, limit_s: float | None) -> Link:
        while self._idle:
            link = self._idle.pop()
            if link.alive:
                return link
            self._links.discard(link)
        waiting: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._grow()
        try:
            async with asyncio.timeout(limit_s):
                return await waiting
        except TimeoutError:
            self._leave_queue(waiting)
            raise InfraError(
                f"waited {limit_s or 0.0:.1f} s for a worker process: {len(self._links)} "
                f"processes run other calls, {self._forking} are being started",
                hint="some calls may hang: the errors of rows that failed as verifier_error name "
                "the line",
            ) from None
        except asyncio.CancelledError:
            self._leave_queue(waiting)
            raise

    def _leave_queue(self, waiting: asyncio.Future[Link]) -> None:
        """Take a call that was cancelled or ran out of time out of the queue. A worker that it just
        received becomes free.
        """
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            self._free(waiting.result())  # it came at the same moment
        with contextlib.suppress(ValueError):
            self._waiting.remove(waiting)

    def _free(self, link: Link) -> None:
        """Give a worker to the next waiting call, or keep it as idle."""
        if not link.alive:
            self._links.discard(link)
            self._slow.discard(link)
            if self._waiting:
                self._grow()
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(link)
                return
        self._idle.append(link)
        if len(self._links) > self._size and self._shrinking is None:
            loop = asyncio.get_running_loop()
            self._shrinking = loop.call_later(IDLE_S, self._shrink)

    def _shrink(self) -> None:
        self._shrinking = None
        while self._idle and len(self._links) > self._size:
            link = self._idle.pop(0)
            self._links.discard(link)
            link.end(Killed())

    def _grow(self) -> None:
        """Start workers for waiting calls: at once up to one per core, then more while calls still
        wait.
        """
        if self._growing is not None or not self._waiting:
            return
        while len(self._links) + self._forking < self._size and self._forking < len(self._waiting):
            self._begin_fork()
        self._growing = asyncio.get_running_loop().call_later(SOON_S, self._grow_more)

    def _grow_more(self) -> None:
        self._growing = None
        self._slow_down()
        count = len(self._links) + self._forking
        stalled = time.monotonic() - self._last_answer > STALLED_S
        most_workers = MOST_OF_ALL if stalled else MOST
        for _ in range(min(AT_A_TIME, len(self._waiting) - self._forking, most_workers - count)):
            self._begin_fork()
        self._grow()

    def _slow_down(self) -> None:
        """Lower the priority of workers whose calls have run for long, so that they do not take CPU
        time from waiting calls.
        """
        latest = time.monotonic() - SLOW_S
        for link, began in self._busy.items():
            if began > latest:
                return
            if link not in self._slow:
                self._slow.add(link)
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, link.pid, SLOW_NICENESS)

    def _begin_fork(self) -> None:
        self._forking += 1
        self._keep(self._add())

    async def _add(self) -> None:
        try:
            link = await self._fork()
        except Exception as error:
            if self._waiting and not (waiting := self._waiting.popleft()).done():
                waiting.set_exception(error)
        else:
            self._free(link)
        finally:
            self._forking -= 1

    async def _fork(self) -> Link:
        link = Link(await self._keeper.fork(), _ignore)
        self._links.add(link)
        return link

    async def close(self) -> None:
        """End every worker process. A later call starts new workers."""
        for timer in (self._growing, self._shrinking):
            if timer is not None:
                timer.cancel()
        self._growing = self._shrinking = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._links:
            link.end(Killed())
        self._links.clear()
        self._idle.clear()
        await asyncio.to_thread(self._keeper.end)


def _ignore(_link: Link, _message: list[Any]) -> None:
    return None
