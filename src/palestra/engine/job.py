"""A job: one rollout, from the queue through all its attempts to its end.

The table `FOLLOWING` alone decides which state may follow which.

| state | meaning | next states |
|---|---|---|
| queued | no attempt has started in this session | running; ended, if no longer needed |
| running | an attempt runs, within its deadline | waiting, ended, stopping, abandoned |
| waiting | an attempt failed; the next starts after a pause | running, ended, stopping |
| stopping | the result is decided elsewhere; the task was cancelled | ended, abandoned |
| ended | the job has its only result | none |
| abandoned | its cancelled attempt still runs and counts as failed | none |

The task of an abandoned job is left behind, and its result is dropped. Later attempts belong to the
job's `successor`.
"""

import asyncio
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, Self

from palestra.schema import RolloutKey
from palestra.transport import Activity

MOST_SPARED: Final = 20
"""The maximum number of failures of one job that are not counted as attempts, because another
rollout's code caused them."""


class JobStage(Enum):
    """The state of a job."""

    QUEUED = auto()
    RUNNING = auto()
    WAITING = auto()
    STOPPING = auto()
    ENDED = auto()
    ABANDONED = auto()


FOLLOWING: Final[Mapping[JobStage, frozenset[JobStage]]] = {
    JobStage.QUEUED: frozenset({JobStage.RUNNING, JobStage.ENDED}),
    JobStage.RUNNING: frozenset(
        {JobStage.WAITING, JobStage.ENDED, JobStage.STOPPING, JobStage.ABANDONED}
    ),
    JobStage.WAITING: frozenset({JobStage.RUNNING, JobStage.ENDED, JobStage.STOPPING}),
    JobStage.STOPPING: frozenset({JobStage.ENDED, JobStage.ABANDONED}),
    JobStage.ENDED: frozenset(),
    JobStage.ABANDONED: frozenset(),
}


@dataclass(slots=True, kw_only=True, eq=False)
class Job(Activity):
    """One rollout and its current activity. Times are `time.monotonic()` values."""

    key: RolloutKey
    agent: str = ""
    row: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: JobStage = JobStage.QUEUED
    started: float = 0.0
    """The time when the job's first attempt of this session started."""
    attempt: int = 0
    """The number of the latest attempt, from 1, including attempts of earlier sessions."""
    attempt_started: float = 0.0
    spared: int = 0
    """The number of attempts that are not counted."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    """The asyncio task that runs the job."""
    stop_by: float = math.inf
    """The time by which the running attempt must end; after it, the attempt is abandoned."""

    @property
    def place(self) -> Hashable:
        """The job's unique key within its engine."""
        return self.key

    @property
    def is_running(self) -> bool:
        """Whether an attempt runs and its result is still needed."""
        return self.state is JobStage.RUNNING

    def become(self, state: JobStage) -> None:
        """Change to `state`. Raises RuntimeError: `FOLLOWING` does not allow the change, which is a
        bug in Palestra.
        """
        if state not in FOLLOWING[self.state]:
            raise RuntimeError(f"{self.key}: {self.state.name} cannot become {state.name}")
        self.state = state

    def begin(self, now: float) -> None:
        """Start the next attempt."""
        self.become(JobStage.RUNNING)
        self.attempt += 1
        self.attempt_started = now
        self.verify_request = None
        self.tool_failures = []
        self.agent_faults = []

    def spare(self) -> None:
        """Remove the latest attempt from the count."""
        self.attempt -= 1
        self.spared += 1

    def successor(self) -> Self:
        """Return a new job for the attempts after an abandoned one."""
        return replace(
            self,
            state=JobStage.QUEUED,
            task=None,
            stop_by=math.inf,
            awaited_calls=[],
            before_failed_call=None,
        )
