"""What others may look at, and be told, while a collection runs."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from palestra.engine import Accounting, ConcurrencyLimit, Job
from palestra.rollouts.results import Failed, Scored
from palestra.schema import RolloutKey
from palestra.transport import RetryCount


@dataclass(slots=True)
class Progress:
    """The state of a collection. `in_flight` is in the order of starting: the oldest first."""

    accounting: Accounting
    in_flight: Mapping[Hashable, Job] = field(default_factory=dict)
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

    def rollout_started(self, key: RolloutKey, job: Job, /) -> None:
        """The first attempt of a rollout begins."""

    def attempt_ended(self, result: Scored | Failed, job: Job, /) -> None:
        """An attempt has been recorded; it was the last when scored or terminal."""
