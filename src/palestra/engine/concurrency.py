"""How many rollouts may be in flight, decided from how the last ones went. No I/O here.

The algorithm is TCP Vegas' (Brakmo and Peterson, 1995), as Netflix' concurrency-limits applies it
to requests, with windows wide enough for rollouts, whose lengths differ by themselves.

- *Ramp.* Start at 16 and double each round (as many answers as the limit) while latency holds.
- *Latency.* An endpoint at its capacity C does not work faster with more in flight: each rollout
  takes longer instead, by n/C. So latency, compared with that of an endpoint at ease (the base),
  says how far beyond C we are. Up to 5 % over it grow by a twentieth (two the next time, and so
  on), beyond 15 % go back to where the inflation says C is, hold between.
- *Base.* Measured at half of what ended the ramp, where the endpoint must be at ease. When going
  back does not lower the latency as it should, the rollouts themselves have become longer:
  their latency is the new base.
- *Refusals.* Busy answers (429, 502, 503, 504), lost connections, timeouts: when they are more
  than a twentieth of what is in flight, go back by 30 % at once, then give what is in flight the
  time of two rollouts to get there before the next step back (the cool-down).

Latencies are compared as means of logarithms. A window goes on until its spread allows a
decision, and what remains doubtful counts as growth: a few long rollouts are no overload.
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
"""Refusals, as a share of the limit, that mean nothing yet."""
SURE: Final = 0.1
"""Two standard errors of a difference that may decide something."""
BASE_SURE: Final = 0.07
"""Two standard errors of a base."""
LONGEST_WINDOW: Final = 16
"""In rounds: then it decides, however unsure."""
LEAST_COUNT: Final = 8
SHORTEST_COOL_DOWN_S: Final = 1.0
LONGEST_COOL_DOWN_S: Final = 60.0


@dataclass(slots=True)
class _Window:
    """Latencies (their logarithms) of rollouts that began after `since`."""

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
        """Two standard errors of this mean's difference from one of so many others."""
        return 2 * math.sqrt(self.variance * sum(1 / n for n in (self.count, *others)))


@dataclass(frozen=True, slots=True)
class _Base:
    """The latency of an endpoint at ease: who told it, and under which limit."""

    mean: float
    count: int
    limit: float

    def fits(self, limit: float) -> bool:
        """Whether the load was light enough to be compared with."""
        return self.limit <= 0.75 * limit or limit < 2


@dataclass(frozen=True, slots=True)
class _Step:
    """A step back: what the latency was, and how far it should fall."""

    latency: float
    expected_fall: float


class _Phase(Enum):
    RAMP = auto()
    MEASURE = auto()
    """The base, at a lighter load."""
    STEADY = auto()


@dataclass(frozen=True, slots=True)
class _Strained:
    """What is to be compared with the base once that is measured, and how to go on then."""

    latency: float
    limit: float
    phase: _Phase


@final
class ConcurrencyLimit:
    """The limit, between 1 and `largest`. Times are seconds of any monotonic clock."""

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
        """How many may be in flight now."""
        return int(self._limit)

    def answered(self, *, began: float, now: float, in_flight: int) -> None:
        """A rollout that began then has its answer; so many others are in flight."""
        self._drained(now, in_flight)
        window = self._window
        if self._draining or began < window.since:
            return
        window.add(math.log(max(now - began, 1e-6)))
        if window.count >= max(self.limit, LEAST_COUNT):
            self._judge(window, now)

    def refused(self, *, now: float, in_flight: int, count: int = 1) -> None:
        """The endpoint was too busy for `count` requests, or lost them."""
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
        """Decide at the end of a round, or go on watching when that is not clear yet."""
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
        """Begin a window."""
        if self._window.count:
            self._latency_s = math.exp(self._window.mean)
        self._window = _Window(now)
