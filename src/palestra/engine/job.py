"""A job: one rollout from the queue to its end, over all its attempts.

Its life is the table `FOLLOWING`; nothing else decides which state may come next.

| state | what holds | what comes next |
|---|---|---|
| queued | no attempt has begun in this session | running; ended, when it is not wanted any more |
| running | an attempt runs, within its deadline | waiting, ended, stopping or abandoned |
| waiting | an attempt failed; the next one begins after a pause | running, ended or stopping |
| stopping | its result has been decided elsewhere; its task was cancelled | ended or abandoned |
| ended | it has its result, exactly once | nothing |
| abandoned | its attempt was cancelled and goes on: it is counted as failed, and its task is left \
behind | nothing: other attempts belong to its `successor`, and what the task still brings is dropped |
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
"""Failures of one job that are not counted as attempts: another rollout's code caused them."""


class JobStage(Enum):
    """Where a job is in its life."""

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
    """One rollout, and what it does now. Times are `time.monotonic()` values."""

    key: RolloutKey
    agent: str = ""
    row: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: JobStage = JobStage.QUEUED
    started: float = 0.0
    """When its first attempt of this session began."""
    attempt: int = 0
    """The latest attempt, from 1; attempts of earlier sessions are counted."""
    attempt_started: float = 0.0
    spared: int = 0
    """Attempts that are not counted."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    """What runs it."""
    stop_by: float = math.inf
    """When what runs must have ended, else it is abandoned."""

    @property
    def place(self) -> Hashable:
        """What tells it from the other jobs of its engine."""
        return self.key

    @property
    def is_running(self) -> bool:
        """Whether an attempt of it runs whose result is waited for."""
        return self.state is JobStage.RUNNING

    def become(self, state: JobStage) -> None:
        """Enter `state`. Raises RuntimeError when the table does not allow it: a bug of ours."""
        if state not in FOLLOWING[self.state]:
            raise RuntimeError(f"{self.key}: {self.state.name} cannot become {state.name}")
        self.state = state

    def begin(self, now: float) -> None:
        """Begin the next attempt."""
        self.become(JobStage.RUNNING)
        self.attempt += 1
        self.attempt_started = now
        self.verify_request = None

    def spare(self) -> None:
        """Do not count the latest attempt."""
        self.attempt -= 1
        self.spared += 1

    def successor(self) -> Self:
        """The job of the attempts that follow an abandoned one."""
        return replace(self, state=JobStage.QUEUED, task=None, stop_by=math.inf)
