"""How fast the rollouts of a running collection end, and in one sentence how it goes."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from palestra.engine import Job

RECENT_S: Final = 60.0
"""The period of the recent rate, in seconds. Where fewer than `FEWEST` rollouts ended in it, it is
the time that the last `FEWEST` took."""
FEWEST: Final = 8
MOST_ATTEMPTS: Final = 50
"""Of so many attempts, the latest, the failed ones are counted."""
STANDING_STILL_S: Final = 15.0
"""A collection stands still when nothing has ended for so long, for `USUAL_GAPS` times the time that
usually passes between two ends, and for as long as its first rollout took."""
USUAL_GAPS: Final = 5.0
FAILING: Final = 0.2
"""The share of failed attempts from which a collection is failing."""


class Health(StrEnum):
    """How a running collection goes."""

    STARTING = "starting"
    """Nothing has ended in this session."""
    HEALTHY = "healthy"
    SLOW = "slow"
    """Rollouts end at less than half the rate of the whole session."""
    FAILING = "failing"
    """Many of the last attempts failed."""
    STANDING_STILL = "standing still"
    """Nothing has ended for much longer than usual."""


@dataclass(frozen=True, slots=True)
class PaceReading:
    """The pace at one moment. Rates are rollouts that end per second."""

    rate: float
    """Of the last minute or so."""
    overall_rate: float
    left_s: float | None
    """At the recent rate. None while fewer rollouts have ended than are in flight, or than `FEWEST`,
    and while the collection stands still.
    """
    health: Health
    sentence: str
    """Why it has this health, with numbers."""


@final
class Pace:
    """The latest ends of a collection. Moments are on the monotonic clock."""

    def __init__(self) -> None:
        self._first_end: float | None = None
        self._last_end: float | None = None
        self._seconds: deque[tuple[int, int]] = deque(maxlen=int(RECENT_S) + 4)
        """The latest seconds in which rollouts ended, each with their number."""
        self._failed: deque[bool] = deque(maxlen=MOST_ATTEMPTS)

    def attempt_ended(self, now: float, *, failed: bool, is_last: bool) -> None:
        """Count an attempt. `is_last`: its rollout has ended with it."""
        self._failed.append(failed)
        if not is_last:
            return
        second, before = int(now), self._seconds[-1] if self._seconds else (-1, 0)
        if before[0] == second:
            self._seconds[-1] = (second, before[1] + 1)
        else:
            self._seconds.append((second, 1))
        if self._first_end is None:
            self._first_end = now
        self._last_end = now  # last: whoever reads it finds the rest

    def read(
        self,
        now: float,
        *,
        started: float,
        ended_count: int,
        remaining: int,
        in_flight: int,
        jobs: Callable[[], Iterable[Job]],
    ) -> PaceReading:
        """Return the pace now. May be called on any thread.

        `started`: when this session began. `ended_count`: the rollouts that ended in it. `jobs`: returns
        those in flight; it is called only where the sentence needs them.
        """
        elapsed = now - started
        overall = ended_count / elapsed if elapsed > 0 else 0.0
        rate = self._rate(now, started)
        last_end = self._last_end
        if not remaining:
            return PaceReading(rate, overall, None, Health.HEALTHY, "every rollout has ended")
        if last_end is None:
            sentence = f"nothing has ended yet, after {span_text(elapsed)}{_waiting(jobs())}"
            return PaceReading(0.0, overall, None, Health.STARTING, sentence)
        quiet_s = now - last_end
        usual_s = USUAL_GAPS * self._usual_gap(started, last_end)
        # a wave of equal rollouts is silent for as long as one takes
        first_took_s = (self._first_end or now) - started
        if quiet_s > max(STANDING_STILL_S, usual_s, first_took_s):
            sentence = f"nothing has ended for {span_text(quiet_s)}{_waiting(jobs())}"
            rate = rate if quiet_s < RECENT_S else 0.0
            return PaceReading(rate, overall, None, Health.STANDING_STILL, sentence)
        health, sentence = self._moving(rate, overall, is_full=remaining > in_flight)
        # The first ends are those of the quickest rollouts: the slow ones, and those that hang, are
        # still in flight.
        is_known = rate > 0 and ended_count >= max(in_flight, FEWEST)
        return PaceReading(rate, overall, remaining / rate if is_known else None, health, sentence)

    def _moving(self, rate: float, overall: float, *, is_full: bool) -> tuple[Health, str]:
        """Return the health of a collection whose rollouts end. `is_full`: some have not started,
        so that fewer in flight do not explain a low rate.
        """
        failed, attempts = sum(self._failed.copy()), len(self._failed)
        failures = f"{failed} of the last {attempts} attempts failed"
        if failed >= 3 and failed >= FAILING * attempts:
            return Health.FAILING, failures
        if is_full and rate < overall / 2:
            return Health.SLOW, f"{rate:.2g}/s in the last minute, {overall:.2g}/s since the start"
        return Health.HEALTHY, f"{rate:.2g}/s in the last minute, and {failures}"

    def _rate(self, now: float, started: float) -> float:
        seconds = list(self._seconds.copy())
        count, since = 0, max(started, now - RECENT_S)
        while seconds and (seconds[-1][0] > now - RECENT_S or count < FEWEST):
            second, count_then = seconds.pop()
            count += count_then
            if second <= now - RECENT_S:
                since = float(seconds[-1][0]) if seconds else started
        return count / (now - since) if now > since else 0.0

    def _usual_gap(self, started: float, last_end: float) -> float:
        """Return the mean time between the latest ends, in seconds."""
        seconds = list(self._seconds.copy())
        is_whole = len(seconds) < (self._seconds.maxlen or 0)
        first = started if is_whole else float(seconds[0][0])
        return (last_end - first) / sum(count for _, count in seconds)


def _waiting(jobs: Iterable[Job]) -> str:
    """Return what most rollouts in flight wait for; empty without any in flight."""
    waits = Counter(job.awaiting or f"{job.phase}, in its own code" for job in jobs)
    if not waits:
        return ""
    [(awaiting, count)] = waits.most_common(1)
    return f"; {count} wait{'s' if count == 1 else ''} for {awaiting}"


def span_text(seconds: float) -> str:
    """Return a time span as text: `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    total_s = max(0, round(seconds))
    for size, unit, smaller_size, smaller_unit in _UNITS:
        if total_s >= size:
            large, small = total_s // size, total_s % size // smaller_size
            return f"{large} {unit} {small} {smaller_unit}" if small else f"{large} {unit}"
    return f"{total_s} s"


_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
