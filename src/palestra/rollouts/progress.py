"""What others may look at, and be told, while a collection runs."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from palestra.rollouts.accounting import Accounting
from palestra.rollouts.concurrency import ConcurrencyLimit
from palestra.rollouts.results import Failed, Scored
from palestra.schema import RolloutKey
from palestra.transport import Activity, RetryCount


@dataclass(slots=True)
class InFlight(Activity):
    """One rollout that runs now. Times are `time.monotonic()` values."""

    agent: str = ""
    started: float = 0.0
    """When its first attempt of this session began."""
    attempt: int = 0
    """The attempt that runs, from 1."""
    attempt_started: float = 0.0
    spared: int = 0
    """Attempts that are not counted: another rollout's code ended them."""
    row: Mapping[str, Any] = field(default_factory=dict, repr=False)
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    """What runs it."""
    attempting: bool = False
    """Whether an attempt runs, and no pause between two."""
    left_behind: bool = False
    """Its attempt was given up while it went on: whatever it still brings counts no more."""


@dataclass(slots=True)
class Progress:
    """The state of a collection. `in_flight` is in the order of starting: the oldest first."""

    accounting: Accounting
    in_flight: dict[RolloutKey, InFlight] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    last_failure: str = ""
    done_before: int = 0
    """Rollouts that had ended before this session began."""
    tokens_before: int = 0
    """Their output tokens."""
    retries: RetryCount = field(default_factory=RetryCount)
    """Requests that this process sent again."""
    max_attempts: int = 1
    standing_still: Callable[[], Sequence[str]] = tuple
    """Sentences about the server processes whose event loops do not run now."""
    limit: ConcurrencyLimit | None = None
    """How many may be in flight, when that is decided on the way."""


class Observer(Protocol):
    """Is told what happens to rollouts, on the event loop: it must be quick and never raise."""

    def rollout_started(self, key: RolloutKey, flight: InFlight, /) -> None:
        """The first attempt of a rollout begins."""

    def attempt_ended(self, result: Scored | Failed, flight: InFlight, /) -> None:
        """An attempt has been recorded; it was the last when scored or terminal."""
