"""One requested rollout on its way: its request, its attempts, and what it is doing."""

import time
from dataclasses import dataclass, field
from typing import Final

from palestra.engine import Job
from palestra.training.errors import BatchFailed
from palestra.training.outcomes import Failed, Outcome
from palestra.training.requests import RolloutRequest
from palestra.transport import current_call

MODEL, TOOL, VERIFY = "/v1/responses", "tool", "/verify"
"""What a rollout does, in the words of the calls that are made for it."""


RETRYING: Final = "retrying"
WITHIN: Final = frozenset({"upstream", RETRYING})
"""Phases that are a part of the call that they are in: the endpoint's time is the model's."""


@dataclass(slots=True, kw_only=True, eq=False)
class TrainingJob(Job):
    """One requested rollout: a place in the queue, then attempts, and where their time goes."""

    request: RolloutRequest
    size: int
    """Bytes of the row."""
    run: str
    """The submission, as it is named in the identity that calls carry."""
    number: int
    """Its place in the order of all that was ever submitted."""
    submitted: float
    deadline: float | None = None
    weights: int | None = None
    """The version when its last attempt began."""
    reserved: int = 0
    """Bytes that are counted for it while it runs."""
    nan_retries: int = 0
    """How often it was made again for log probs that are none."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds of this attempt by the call of the agent that they went into."""
    charged: str = ""
    """The call that what happens now belongs to."""
    last_failure: Failed | None = None
    """How the attempt before this one failed."""

    @property
    def place(self) -> int:
        """Rollouts of several submissions may have one key."""
        return self.number

    @property
    def time_is_up(self) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def now(self, phase: str, awaiting: str) -> None:
        """As `Activity.now`, and count what went before."""
        moment = time.monotonic()
        self.spent[self.charged] = self.spent.get(self.charged, 0.0) + moment - self.since
        self.phase, self.awaiting, self.since = phase, awaiting, moment
        # What an environment asks (a judge, say) is its own time: a tool's, or the verifier's.
        if phase not in WITHIN and not current_call().in_environment:
            self.charged = phase

    def __lt__(self, other_job: "TrainingJob") -> bool:
        """Whether it is started first."""
        mine, theirs = -self.request.priority, -other_job.request.priority
        return (mine, self.number) < (theirs, other_job.number)


@dataclass(frozen=True, slots=True)
class Attempted:
    """How one attempt went: its rollout's outcome, or the pause before another attempt."""

    outcome: Outcome | None = None
    size: int = 0
    """About how many bytes the outcome holds."""
    pause_s: float | None = None
    violation: BatchFailed | None = None
    """The rule of tokens that was broken, which ends the batch."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """An outcome that waits to be taken."""

    outcome: Outcome
    size: int
    """About how many bytes it holds."""
