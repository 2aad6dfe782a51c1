"""How long a run continues to call endpoints that refuse all requests.

A refusal is a busy answer (429), a server error (5xx), or a connection that was refused or broke.
One answer of any endpoint to any request of the run ends the streak of refusals: a judge that
refuses while the policy answers does not stop the run here. The rejection of one row (400) does not
count.

The run waits for a request that may still be answered: one that was sent before the streak began,
or that has taken much longer than a refusal takes. A busy endpoint refuses most requests at once
and answers the others minutes later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Self, TypeVar, final

from palestra.errors import DeadlineExceeded, EndpointRefuses
from palestra.transport.context import CallContext, current_call

Answer = TypeVar("Answer")

RUN_PATH = "/run"
"""The path of a whole rollout, to which the timeout of single calls does not apply."""


def within_call_limit(path: str, call: Awaitable[Answer], *, server: str) -> Awaitable[Answer]:
    """Return `call`, limited by the rollout's timeout for each call. `path` and `server` are for
    the message.

    Awaiting it raises `DeadlineExceeded` after that time, or the error of `call`.
    """
    limit_s = None if path == RUN_PATH else current_call().call_limit_s
    return call if limit_s is None else _within(limit_s, call, what=f"{server}{path}")


async def _within(limit_s: float, call: Awaitable[Answer], *, what: str) -> Answer:
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await call
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(
            f"{what} took longer than {limit_s:g} s",
            hint="raise call_timeout_s, or find out why the called server is slow",
        ) from None


IDLE_S: Final = 60.0
"""A run without calls for this many seconds was stopped: its old streak does not count when it
continues."""
LONGER: Final = 2.0
"""A request that takes this many times as long as the slowest refusal is probably being answered.
"""
LEAST_S: Final = 5.0
"""A request that has taken fewer seconds may still be refused, even if other refusals were faster.
"""


@final
class _Streak:
    """The refusals of one run since its last answer. `now` and all other times are from one clock."""

    __slots__ = ("calls", "idle_since", "limit_s", "refused", "sent", "since", "slowest_s")

    def __init__(self, limit_s: float, now: float) -> None:
        self.limit_s = limit_s
        self.since: float | None = None
        """When the first refusal came; None while there is none."""
        self.refused = 0
        self.slowest_s = 0.0
        """How long the slowest refusal took."""
        self.calls = 0
        """Calls that are made now, those that pause before another try included."""
        self.sent: dict[object, float] = {}
        """When each request was sent that is under way now, the oldest first."""
        self.idle_since = now

    def end(self) -> None:
        """End the streak: a request was answered, or the run has received the error."""
        self.since = None
        self.refused = 0
        self.slowest_s = 0.0

    def may_be_answered(self, now: float) -> bool:
        """Whether a request is running that the endpoint does not seem to refuse."""
        oldest = next(iter(self.sent.values()), None)
        if oldest is None or self.since is None:
            return False
        return oldest < self.since or now - oldest > max(LEAST_S, LONGER * self.slowest_s)


@final
class Refusals:
    """The streaks of refusals of all runs that call endpoints from this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streaks: dict[str, _Streak] = {}

    def patience_of(self, context: CallContext) -> "Patience | None":
        """Return the patience for one call of a run; None when it has no limit.

        A call that names no run belongs to the only known run; with several known runs the result
        is None.
        """
        row = context.row
        run, limit_s = "" if row is None else row.run, context.patience_s
        if not run:
            if len(self._streaks) != 1:
                return None
            [(run, streak)] = self._streaks.items()
            limit_s = streak.limit_s
        if limit_s is None:
            return None
        if run not in self._streaks:
            self._forget_idle()
            self._streaks[run] = _Streak(limit_s, self._clock())
        return Patience(self._streaks[run], limit_s, self._clock, partial(self.forget, run))

    def _forget_idle(self) -> None:
        """Drop the runs that ended during a streak of refusals."""
        latest = self._clock() - IDLE_S
        for run, streak in tuple(self._streaks.items()):
            if not streak.calls and streak.idle_since < latest:
                del self._streaks[run]

    def __len__(self) -> int:
        """Return the number of runs that are kept."""
        return len(self._streaks)

    def forget(self, run: str) -> None:
        """Drop a run that has no calls and no streak of refusals."""
        self._streaks.pop(run, None)


@final
class Patience:
    """The patience of one call. Make the call inside its `with` block."""

    __slots__ = ("_clock", "_forget", "_streak", "limit_s")

    def __init__(
        self,
        streak: _Streak,
        limit_s: float,
        clock: Callable[[], float],
        forget: Callable[[], None],
    ) -> None:
        self._streak = streak
        self._clock = clock
        self._forget = forget
        self.limit_s = limit_s

    def __enter__(self) -> Self:
        streak = self._streak
        if not streak.calls and self._clock() - streak.idle_since > IDLE_S:
            streak.end()
        streak.calls += 1
        return self

    def __exit__(self, *_: object) -> None:
        streak = self._streak
        streak.calls -= 1
        streak.sent.pop(self, None)
        if not streak.calls:
            streak.idle_since = self._clock()
            if streak.since is None:
                self._forget()

    def sent(self) -> None:
        """Record that a request is sent."""
        self._streak.sent[self] = self._clock()

    def returned(self) -> None:
        """Record that the request ended in a way that is neither an answer nor a refusal."""
        self._streak.sent.pop(self, None)

    def answered(self) -> None:
        """Record that the request was answered."""
        self.returned()
        self._streak.end()

    def refused(self) -> None:
        """Record that the request was refused."""
        streak, now = self._streak, self._clock()
        streak.slowest_s = max(streak.slowest_s, now - streak.sent.pop(self, now))
        streak.refused += 1
        if streak.since is None:
            streak.since = now

    @property
    def left_s(self) -> float | None:
        """Seconds until the run stops if nothing is answered.

        None while nothing is refused, and while the run waits for a request that may still be
        answered.
        """
        since, now = self._streak.since, self._clock()
        if since is None or self._streak.may_be_answered(now):
            return None
        return max(0.0, since + self.limit_s - now)

    @property
    def shortest_s(self) -> float | None:
        """Seconds until the run stops if nothing is answered, not even the running requests.

        None while nothing is refused, and when the time is over and the run only waits for running
        requests.
        """
        since = self._streak.since
        left_s = None if since is None else since + self.limit_s - self._clock()
        return None if left_s is None or left_s < 0 else left_s

    def check(self, reason: str) -> None:
        """Raise EndpointRefuses when the patience is used up. `reason`: the last refusal."""
        streak = self._streak
        if streak.since is None or self.left_s != 0.0:
            return
        waited_s = self._clock() - streak.since
        refused = streak.refused
        # Whoever goes on nevertheless has its patience anew.
        streak.end()
        raise EndpointRefuses(
            f"{reason}; all {refused} requests of the last {waited_s:.0f} s were refused",
            hint="--patience SECONDS waits longer, 0 without end",
        )
