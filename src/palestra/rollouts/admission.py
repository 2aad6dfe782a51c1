"""Admission: letting rollouts in while a limit that moves leaves room.

The decisions are `ConcurrencyLimit`'s. What it is told: each attempt's latency, attempts that
failed because something was too busy or gone, and requests that this process had to send again.
With embedded servers the latter are the model endpoint's own busy answers; with a fleet in other
processes the attempts alone tell.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar, final

from palestra.errors import Outcome
from palestra.rollouts.concurrency import ConcurrencyLimit
from palestra.rollouts.progress import InFlight
from palestra.rollouts.results import Failed, Scored
from palestra.rollouts.tasks import BoundedTasks
from palestra.schema import RolloutKey
from palestra.transport import RetryCount

LOOK_EVERY_S = 0.5
"""How often refusals are looked for while no rollout ends."""

OVERLOADED = frozenset({Outcome.INFRA_ERROR, Outcome.POLICY_ERROR, Outcome.TIMEOUT})
"""Failures that fewer rollouts at once may prevent."""

Row = TypeVar("Row")


@final
class Admission:
    """Starts rollouts, and watches how they end (it is an `Observer`).

    `retries`: requests sent again by this process, which the servers inside it share.
    """

    def __init__(
        self,
        limit: ConcurrencyLimit,
        retries: RetryCount,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._retries = retries
        self._retries_seen = retries.retries
        self._clock = clock
        self._running = 0
        self._left: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()

    async def run(
        self, rows: Iterator[Row], work: Callable[[Row], Awaitable[object]], tasks: BoundedTasks
    ) -> None:
        """Start `work` on every row, as many at once as the limit of the moment allows.

        A row is read when it can run. What is running when the limit falls runs on.
        """
        while not tasks.broken:
            while self._running < self.limit.limit:
                row = next(rows, None)
                if row is None:
                    return
                self._running += 1
                tasks.start(self._one(partial(work, row)))
            await self._wait()
            self._look()

    def counted(self, work: Callable[[], Awaitable[object]]) -> Coroutine[Any, Any, None]:
        """`work`, which does not wait for room, as one of those that take it."""
        self._running += 1
        return self._one(work)

    async def _one(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        finally:
            if asyncio.current_task() not in self._left:
                self._ended()

    def leave(self, task: asyncio.Task[None]) -> None:
        """Count `task` as ended: it holds a rollout's place for ever otherwise."""
        self._left.add(task)
        self._ended()

    def _ended(self) -> None:
        self._running -= 1
        self._room.set()

    async def _wait(self) -> None:
        """Until a rollout has ended, but not for long."""
        self._room.clear()
        try:
            async with asyncio.timeout(LOOK_EVERY_S):
                await self._room.wait()
        except TimeoutError:
            return

    def _look(self) -> None:
        """Tell of requests that had to be sent again since the last look."""
        count = self._retries.retries - self._retries_seen
        if count:
            self._retries_seen += count
            self.limit.refused(now=self._clock(), in_flight=self._running, count=count)

    def rollout_started(self, key: RolloutKey, flight: InFlight, /) -> None:
        """Nothing to learn from that."""

    def attempt_ended(self, result: Scored | Failed, flight: InFlight, /) -> None:
        """Learn from one attempt. Other failures say nothing about the load."""
        now = self._clock()
        if isinstance(result, Scored):
            self.limit.answered(began=flight.attempt_started, now=now, in_flight=self._running - 1)
        elif result.outcome in OVERLOADED:
            self.limit.refused(now=now, in_flight=self._running)
