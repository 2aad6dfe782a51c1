"""One requested rollout on its way: its request, its wire row, and what it is doing."""

import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from palestra.engine import Job
from palestra.training.outcomes import Failed, Outcome
from palestra.training.requests import Key, RolloutRequest
from palestra.transport import current_call

MODEL, TOOL, VERIFY = "/v1/responses", "tool", "/verify"
"""What a rollout does, in the words of the calls that are made for it."""


RETRYING: Final = "retrying"
WITHIN: Final = frozenset({"upstream", RETRYING})
"""Phases that are a part of the call that they are in: the endpoint's time is the model's."""


@dataclass(slots=True, kw_only=True)
class Flight(Job):
    """An attempt, and where its time goes."""

    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by the call of the agent that they went into."""
    charged: str = ""
    """The call that what happens now belongs to."""
    last_failure: Failed | None = None
    """How the attempt before this one failed."""

    def now(self, phase: str, awaiting: str) -> None:
        """As `Activity.now`, and count what went before."""
        moment = time.monotonic()
        self.spent[self.charged] = self.spent.get(self.charged, 0.0) + moment - self.since
        self.phase, self.awaiting, self.since = phase, awaiting, moment
        # What an environment asks (a judge, say) is its own time: a tool's, or the verifier's.
        if phase not in WITHIN and not current_call().in_environment:
            self.charged = phase


class TicketState(Enum):
    """Where a ticket is in its life."""

    QUEUED = auto()
    RUNNING = auto()
    ENDED = auto()
    """It has its outcome, whatever its task still does."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A place in the queue, and then a rollout that runs. Times are `time.monotonic()` values."""

    request: RolloutRequest
    row: dict[str, Any]
    """What is sent to the agent."""
    agent: str
    size: int
    """Bytes of the row."""
    run: str
    """The submission, as it is named in the identity that calls carry."""
    number: int
    """Its place in the order of all that was ever submitted."""
    submitted: float
    deadline: float | None = None
    state: TicketState = TicketState.QUEUED
    attempts: int = 0
    spared: int = 0
    """Those that are not counted: another rollout's code ended them."""
    began: float = 0.0
    """When its last attempt began."""
    stop_by: float | None = None
    """When its task must have ended, else it is left behind."""
    weights: int | None = None
    """The version when its last attempt began."""
    reserved: int = 0
    """Bytes that are counted for it while it runs."""

    @property
    def key(self) -> Key:
        """Which rollout it is."""
        return self.request.key

    @property
    def time_is_up(self) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def over(self) -> bool:
        """Whether it has its outcome."""
        return self.state is TicketState.ENDED

    def __lt__(self, other: "Ticket") -> bool:
        """Whether it is started first."""
        mine, theirs = -self.request.priority, -other.request.priority
        return (mine, self.number) < (theirs, other.number)


@dataclass(frozen=True, slots=True)
class Arrived:
    """An outcome that waits to be taken."""

    outcome: Outcome
    size: int
    """About how many bytes it holds."""
