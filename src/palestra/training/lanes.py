"""One batch on its way through the pool, and what ends all of them."""

import asyncio
import heapq
from dataclasses import dataclass, field

from palestra.engine import JobStage
from palestra.errors import Layer
from palestra.training.batch import Batch
from palestra.training.errors import Cause
from palestra.training.jobs import TrainingJob
from palestra.training.policies import Outage


@dataclass(slots=True, eq=False)
class Lane:
    """One batch on its way through the pool."""

    batch: Batch
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Something has ended, or the batch has failed."""
    running: int = 0
    """Jobs with a task that has not ended, whether or not they have their outcome."""
    queue: list[TrainingJob] = field(default_factory=list)
    """A heap; jobs that ended in it are dropped when they come up."""
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def head(self) -> TrainingJob | None:
        """The next to be started."""
        while self.queue and self.queue[0].state is not JobStage.QUEUED:
            heapq.heappop(self.queue)
        return self.queue[0] if self.queue else None


@dataclass(frozen=True, slots=True)
class Halt:
    """Why nothing can come back: for good when servers died, for now when one is stuck."""

    outage: Outage
    layer: Layer
    cause: Cause
    log_tails: dict[str, tuple[str, ...]] = field(default_factory=dict)
