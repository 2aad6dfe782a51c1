"""An endpoint with a capacity, and rollouts that come and go as a limit allows; time is made up."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from palestra.engine.concurrency import ConcurrencyLimit


@dataclass
class SimulatedRun:
    """Rollouts against an endpoint: latency rises beyond its capacity, 429 beyond twice that.

    A rollout that is refused tries again after a pause, as the upstream's client does.
    """

    capacity: Callable[[float], float]
    """Of the moment."""
    latency_s: Callable[[float], float] = lambda _now: 2.0
    """How long a rollout that begins then takes an endpoint at ease."""
    spread: float = 0.0
    """Standard deviation of the logarithm of a rollout's length."""
    rollouts: int = 1_000_000
    seed: int = 0
    now: float = 0.0
    ended: int = 0
    limits: list[tuple[float, int]] = field(default_factory=list)

    def run(self, limit: ConcurrencyLimit, until: float) -> None:
        draw = random.Random(self.seed)
        events: list[tuple[float, int, str, float]] = []
        begun = working = number = 0

        def begin(began: float) -> None:
            nonlocal working, number
            number += 1
            capacity = self.capacity(self.now)
            if working >= 2 * capacity:
                pause = draw.uniform(0.5, 1.0) * 0.5
                heapq.heappush(events, (self.now + pause, number, "again", began))
                limit.refused(now=self.now, in_flight=begun - self.ended)
                return
            working += 1
            length = self.latency_s(self.now) * draw.lognormvariate(0, self.spread)
            takes = length * max(1.0, working / capacity)
            heapq.heappush(events, (self.now + takes, number, "end", began))

        while self.now < until and self.ended < self.rollouts:
            while begun < self.rollouts and begun - self.ended < limit.limit:
                begun += 1
                begin(self.now)
            self.now, _, what, began = heapq.heappop(events)
            if what == "again":
                begin(began)
                continue
            working -= 1
            self.ended += 1
            limit.answered(began=began, now=self.now, in_flight=begun - self.ended)
            self.limits.append((self.now, limit.limit))

    def settled(self, since: float) -> tuple[float, float, float]:
        """Least, mean and greatest limit since then."""
        seen = [limit for moment, limit in self.limits if moment >= since]
        return min(seen), sum(seen) / len(seen), max(seen)
