"""The number of rollouts that may run at once, adapted to the latency and refusals of recent ones.
No I/O.

The algorithm is TCP Vegas (Brakmo and Peterson, 1995), as Netflix's concurrency-limits applies it
to requests. The windows are larger, because rollouts naturally differ in length.

- *Ramp.* Start at 16 and double each round (as many answers as the limit) while latency stays
  stable.
- *Latency.* An endpoint with capacity C does not work faster with n > C rollouts in flight: each
  takes n/C times as long. So the ratio of the latency to the latency at low load (the base)
  shows how far n is above C. Below 5 % above the base, grow by 1/20 (by 2/20 the next time, and
  so on). Above 15 %, reduce the limit to the estimated C. In between, keep it.
- *Base.* Measured at half of the limit that ended the ramp, where the load must be low. If a
  reduction does not lower the latency as expected, the rollouts themselves have become longer,
  and their latency is the new base.
- *Refusals.* Busy responses (429, 502, 503, 504), lost connections and timeouts. When they exceed
  1/20 of the limit, reduce the limit by 30 % at once. Then wait for the duration of two
  rollouts before the next reduction (the cool-down).

Latencies are compared as means of logarithms. A window continues until its standard error is small
enough for a decision. Doubtful cases count as growth: a few long rollouts are not an overload.
"""

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, final

FIRST: Final = 16
GROWTH: Final = 0.05
BACK_OFF: Final = 0.7
AT_EASE: Final = 0.5
CALM: Final = math.log(1.05)
STRAINED: Final = math.log(1.15)
TOLERATED: Final = 0.05
"""The share of refusals, relative to the limit, that has no effect."""
SURE: Final = 0.1
"""The largest doubt (two standard errors of a difference) at which a window may decide."""
BASE_SURE: Final = 0.07
"""The largest doubt (two standard errors) at which a base is accepted."""
LONGEST_WINDOW: Final = 16
"""The maximum length of a window, in rounds. After it, a decision is made whatever the doubt."""
LEAST_COUNT: Final = 8
SHORTEST_COOL_DOWN_S: Final = 1.0
LONGEST_COOL_DOWN_S: Final = 60.0


@dataclass(slots=True)
class _Window:
    """The log latencies of rollouts that started after `since`."""

    since: float
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    refused: int = 0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def variance(self) -> float:
        return max(0.0, (self.squares - self.total * self.mean) / max(1, self.count - 1))

    def doubt(self, *others: int) -> float:
        """Return two standard errors of the difference between this mean and the means of windows
        with `others` values.
        """
        return 2 * math.sqrt(self.variance * sum(1 / n for n in (self.count, *others)))


@dataclass(frozen=True, slots=True)
class _Base:
    """The latency of an endpoint at low load: mean log latency, number of rollouts, and the limit
    during the measurement.
    """

    mean: float
    count: int
    limit: float

    def fits(self, limit: float) -> bool:
        """Whether the base was measured at a low enough load to be compared with the latency at
        `limit`.
        """
        return self.limit <= 0.75 * limit or limit < 2


@dataclass(frozen=True, slots=True)
class _Step:
    """A reduction of the limit: the log latency before it, and the expected decrease."""

    latency: float
    expected_fall: float


class _Phase(Enum):
    RAMP = auto()
    MEASURE = auto()
    """Measure the base latency at a lower load."""
    STEADY = auto()


@dataclass(frozen=True, slots=True)
class _Strained:
    """The latency, limit and phase before a base measurement, used for the comparison and to
    continue afterwards.
    """

    latency: float
    limit: float
    phase: _Phase


@final
class ConcurrencyLimit:
    """The limit on concurrent rollouts, between 1 and `largest`. Times are seconds of any monotonic
    clock.
    """

    def __init__(self, largest: int, *, first: int = FIRST, now: float = 0.0) -> None:
        self._most = max(1, largest)
        self._limit = float(min(first, self._most))
        self._phase = _Phase.RAMP
        self._window = _Window(now)
        self._base: _Base | None = None
        self._step: _Step | None = None
        self._measured: _Strained | None = None
        self._streak = 0
        """Windows in a row that let the limit grow."""
        self._draining = False
        self._cool_until = now
        self._latency_s = SHORTEST_COOL_DOWN_S
        """A typical one."""

    @property
    def limit(self) -> int:
        """The number of rollouts that may run now."""
        return int(self._limit)

    def answered(self, *, began: float, now: float, in_flight: int) -> None:
        """Record a rollout that began at `began` and ended now. `in_flight`: the number of other
        running rollouts.
        """
        self._drained(now, in_flight)
        window = self._window
        if self._draining or began < window.since:
            return
        window.add(math.log(max(now - began, 1e-6)))
        if window.count >= max(self.limit, LEAST_COUNT):
            self._judge(window, now)

    def refused(self, *, now: float, in_flight: int, count: int = 1) -> None:
        """Record `count` requests that the endpoint refused as too busy, or lost."""
        self._drained(now, in_flight)
        self._window.refused += count
        if now < self._cool_until or self._window.refused < max(1.0, TOLERATED * self._limit):
            return
        self._phase, self._step, self._measured = _Phase.STEADY, None, None
        # Where the load really is: a limit that nobody has reached yet says nothing.
        self._back_to(BACK_OFF * min(self._limit, max(in_flight, 1)), now)
        pause = max(2 * self._latency_s, SHORTEST_COOL_DOWN_S)
        self._cool_until = now + min(pause, LONGEST_COOL_DOWN_S)

    def _drained(self, now: float, in_flight: int) -> None:
        if self._draining and in_flight <= self._limit:
            # From here on what begins meets the load that was meant.
            self._draining = False
            self._watch(now)

    def _judge(self, window: _Window, now: float) -> None:
        """Change the limit at the end of a round, or continue the window when the data is not
        conclusive.
        """
        long_enough = window.count >= LONGEST_WINDOW * self._limit
        base = self._base
        if self._phase is _Phase.MEASURE:
            if long_enough or window.doubt() <= BASE_SURE:
                self._take_base(window, now)
        elif base is None and self._phase is _Phase.RAMP:
            self._base = _Base(window.mean, window.count, self._limit)
            self._grow(now, 2.0)
        elif base is None or (self._phase is _Phase.STEADY and not base.fits(self._limit)):
            if long_enough or window.doubt() <= BASE_SURE:
                self._measure_base(window, now)
        elif self._phase is _Phase.RAMP:
            self._judge_ramp(window, base, now)
        elif long_enough or window.doubt(base.count) <= SURE:
            self._judge_steady(window, base, now)

    def _judge_ramp(self, window: _Window, base: _Base, now: float) -> None:
        gap = window.mean - base.mean
        if gap - window.doubt(base.count) > CALM:
            self._measure_base(window, now)
            return
        if gap <= CALM:
            count = base.count + window.count
            self._base = _Base((base.mean * base.count + window.total) / count, count, base.limit)
        self._grow(now, 2.0)

    def _measure_base(self, window: _Window, now: float) -> None:
        self._measured = _Strained(window.mean, self._limit, self._phase)
        self._phase = _Phase.MEASURE
        self._back_to(AT_EASE * self._limit, now)

    def _take_base(self, window: _Window, now: float) -> None:
        base = self._base = _Base(window.mean, window.count, self._limit)
        strained = self._measured or _Strained(window.mean, self._limit, _Phase.STEADY)
        gap = strained.latency - base.mean
        # When it was no overload after all: on with the ramp, from where it was.
        self._phase = strained.phase if gap - window.doubt() <= CALM else _Phase.STEADY
        self._limit = max(1.0, strained.limit * math.exp(min(0.0, CALM - gap)))
        self._measured = None
        self._watch(now)

    def _judge_steady(self, window: _Window, base: _Base, now: float) -> None:
        gap, doubt = window.mean - base.mean, window.doubt(base.count)
        step, self._step = self._step, None
        if step is not None and step.latency - window.mean < step.expected_fall / 2:
            self._base = _Base(window.mean, window.count, self._limit)
            self._climb(now)
        elif gap - doubt > STRAINED:
            before = self._limit
            self._back_to(before * math.exp(CALM - gap), now)
            self._step = _Step(base.mean + gap, math.log(before / self._limit))
        elif gap - doubt < CALM:
            self._climb(now)
        else:
            self._streak = 0
            self._watch(now)

    def _climb(self, now: float) -> None:
        # The longer nothing speaks against it, the faster: capacity may have come back.
        self._streak += 1
        self._grow(now, 1 + GROWTH * self._streak)

    def _grow(self, now: float, factor: float) -> None:
        self._limit = min(float(self._most), max(self._limit + 1, self._limit * factor))
        self._watch(now)

    def _back_to(self, limit: float, now: float) -> None:
        self._watch(now)
        self._streak = 0
        self._limit = max(1.0, limit)
        self._draining = True

    def _watch(self, now: float) -> None:
        """Start a new window."""
        if self._window.count:
            self._latency_s = math.exp(self._window.mean)
        self._window = _Window(now)
