"""How many jobs may run, decided from how the last ones went.

The decisions are `ConcurrencyLimit`'s. It learns each attempt's latency, attempts that failed
because something was too busy or gone, and requests that this process had to send again. With
embedded servers the latter are the model endpoint's busy answers; with a fleet in other
processes the attempts alone tell.
"""

import time
from collections.abc import Callable
from typing import Final, final

from palestra.engine.concurrency import ConcurrencyLimit
from palestra.errors import Outcome
from palestra.transport import RetryCount

OVERLOADED: Final = frozenset({Outcome.INFRA_ERROR, Outcome.POLICY_ERROR, Outcome.TIMEOUT})
"""Failures that fewer rollouts at once may prevent. Other failures say nothing about the load."""


@final
class JobRoom:
    """A limit that moves. `retries`: the requests that this process has sent again."""

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

    def attempt_ended(self, outcome: Outcome, *, began: float, in_flight: int) -> None:
        """Learn from one attempt, which is one of `in_flight`."""
        now = self._clock()
        if outcome.has_reward:
            self.limit.answered(began=began, now=now, in_flight=in_flight - 1)
        elif outcome in OVERLOADED:
            self.limit.refused(now=now, in_flight=in_flight)
        self.look(in_flight)

    def look(self, in_flight: int) -> None:
        """Learn from the requests that were sent again since the last look."""
        count = self._retries.retries - self._retries_seen
        if count:
            self._retries_seen += count
            self.limit.refused(now=self._clock(), in_flight=in_flight, count=count)
