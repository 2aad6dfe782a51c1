"""How long a run goes on asking an endpoint that refuses everything.

A refusal is a busy answer (429), an error of the server (5xx), or a connection that was refused or
cut. One answer of any request of the run ends the streak. A refusal of one row (400) counts
neither way. A request that was sent before the streak began may still be answered, so that the
run waits for it.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Self, final

from palestra.errors import EndpointRefuses
from palestra.transport.context import CallContext

IDLE_S: Final = 60.0
"""A run that has asked nothing for so long was stopped: its streak does not count when it goes on."""


@final
class _Streak:
    """What one run has met at one endpoint since its last answer. Times are of `clock`."""

    __slots__ = ("calls", "idle_since", "refused", "sent", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        """When the first refusal came; None while there is none."""
        self.refused = 0
        self.calls = 0
        """Calls that are made now, those that pause before another try included."""
        self.sent: dict[object, float] = {}
        """When each request was sent that is under way now, the oldest first."""
        self.idle_since = 0.0

    def end(self) -> None:
        """Something was answered, or the run has been told."""
        self.since = None
        self.refused = 0


@final
class Refusals:
    """The streaks of all runs at one endpoint."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streaks: dict[str, _Streak] = {}

    def patience_of(self, context: CallContext) -> "Patience | None":
        """For one call of a run; None where nobody set a limit to its patience."""
        if context.patience_s is None or context.row is None:
            return None
        streak = self._streaks.setdefault(context.row.run, _Streak())
        return Patience(
            streak, context.patience_s, self._clock, partial(self.forget, context.row.run)
        )

    def forget(self, run: str) -> None:
        """The run asks nothing now, and nothing was refused last."""
        self._streaks.pop(run, None)


@final
class Patience:
    """The patience of one call. The call is made in the body of `with`."""

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
        """A request goes out."""
        self._streak.sent[self] = self._clock()

    def returned(self) -> None:
        """It ended in a way that says nothing of the endpoint's patience."""
        self._streak.sent.pop(self, None)

    def answered(self) -> None:
        """It was answered."""
        self.returned()
        self._streak.end()

    def refused(self) -> None:
        """It was refused."""
        self.returned()
        streak = self._streak
        streak.refused += 1
        if streak.since is None:
            streak.since = self._clock()

    @property
    def left_s(self) -> float | None:
        """Seconds until the run stops if nothing is answered; None while nothing is refused."""
        since = self._streak.since
        return None if since is None else max(0.0, since + self.limit_s - self._clock())

    def check(self, reason: str) -> None:
        """Raise EndpointRefuses when the patience has run out. `reason`: the last refusal."""
        streak = self._streak
        if streak.since is None or self.left_s:
            return
        oldest = next(iter(streak.sent.values()), None)
        if oldest is not None and oldest < streak.since:
            return
        waited_s = self._clock() - streak.since
        refused = streak.refused
        # Whoever goes on nevertheless has its patience anew.
        streak.end()
        raise EndpointRefuses(
            f"{reason}; all {refused} requests of the last {waited_s:.0f} s were refused",
            hint="what has ended is recorded: once the endpoint answers, the same command with "
            "--resume goes on; --patience SECONDS (+patience) waits longer, 0 without end",
        )
