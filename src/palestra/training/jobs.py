"""One requested rollout while it runs: its request, its attempts, and its current activity."""

import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from palestra.engine import Job
from palestra.training.errors import BatchFailed
from palestra.training.outcomes import Failed, Outcome
from palestra.training.requests import RolloutRequest
from palestra.transport import current_call

MODEL, TOOL, VERIFY = "/v1/responses", "tool", "/verify"
"""What a rollout does, in the words of the calls that are made for it."""


RETRYING: Final = "retrying"
WITHIN: Final = frozenset({"model server", RETRYING})
"""Phases that are part of another call: the endpoint's time counts as the model's."""


@dataclass(slots=True, kw_only=True, eq=False)
class TrainingJob(Job):
    """One requested rollout: its place in the queue, its attempts, and how long each kind of call
    took.
    """

    request: RolloutRequest
    size: int
    """The size of the row in bytes."""
    run: str
    """The submission's id, which the rollout's calls carry."""
    number: int
    """The number of the job in the order of all submissions."""
    submitted: float
    deadline: float | None = None
    weights: int | None = None
    """The weight version when the last attempt began."""
    reserved: int = 0
    """The bytes that are counted for the job while it runs."""
    nan_retries: int = 0
    """How often the rollout was repeated because of invalid log probs."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds of this attempt, for each kind of call that the agent made."""
    charged: str = ""
    """The call that the current time is counted for."""
    last_failure: Failed | None = None
    """The failure of the previous attempt."""

    @property
    def place(self) -> int:
        """The job's unique number, because rollouts of several submissions may have the same key."""
        return self.number

    @property
    def time_is_up(self) -> bool:
        """Whether the rollout's deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def now(self, phase: str, awaiting: str) -> None:
        """Do what `Activity.now` does, and add the time since the last change to `spent`."""
        moment = time.monotonic()
        self.spent[self.charged] = self.spent.get(self.charged, 0.0) + moment - self.since
        self.phase, self.awaiting, self.since = phase, awaiting, moment
        # What an environment asks (a judge, say) is its own time: a tool's, or the verifier's.
        if phase not in WITHIN and not current_call().in_environment:
            self.charged = phase

    def __lt__(self, other_job: "TrainingJob") -> bool:
        """Whether this job starts before `other_job`: by priority, then by submission order."""
        mine, theirs = -self.request.priority, -other_job.request.priority
        return (mine, self.number) < (theirs, other_job.number)


class Attempted(msgspec.Struct, frozen=True):
    """The result of one attempt: the rollout's outcome, or the pause before another attempt."""

    outcome: Outcome | None = None
    size: int = 0
    """The approximate size of the outcome in bytes."""
    pause_s: float | None = None
    violation: BatchFailed | None = None
    """The broken rule for tokens, which ends the batch; else None."""


class Arrived(NamedTuple):
    """An outcome that waits to be taken."""

    outcome: Outcome
    size: int
    """The approximate size of the outcome in bytes."""
