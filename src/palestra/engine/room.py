"""Adapt the number of concurrent jobs to how recent attempts went.

`ConcurrencyLimit` makes the decisions. Its input: the latency of each attempt, attempts that failed
because a server was busy or gone, and requests that were retried because the model endpoint was
busy, by this process or by a model server that it hears of.
"""

import time
from collections.abc import Callable
from typing import Final, final

from palestra.engine.concurrency import ConcurrencyLimit
from palestra.errors import Outcome
from palestra.transport import RetryCount

OVERLOADED: Final = frozenset({Outcome.INFRA_ERROR, Outcome.POLICY_ERROR, Outcome.TIMEOUT})
"""Failures that a lower concurrency may prevent. Other failures are unrelated to the load."""


@final
class JobRoom:
    """A concurrency limit that adapts itself. `retries`: the count of retried requests."""

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
        """Update the limit from one ended attempt. `in_flight`: the running attempts, including
        this one.
        """
        now = self._clock()
        if outcome.has_reward:
            self.limit.answered(began=began, now=now, in_flight=in_flight - 1)
        elif outcome in OVERLOADED:
            self.limit.refused(now=now, in_flight=in_flight)
        self.look(in_flight)

    def look(self, in_flight: int) -> None:
        """Update the limit from the requests retried since the last call."""
        count = self._retries.retries - self._retries_seen
        if count:
            self._retries_seen += count
            self.limit.refused(now=self._clock(), in_flight=in_flight, count=count)
