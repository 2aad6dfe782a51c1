"""The numbers of a running collection at one moment, taken cheaply from its `Progress`."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import final

from palestra.engine import Job
from palestra.errors import Outcome
from palestra.rollouts import Health, Progress

RECENT_S = 30.0
"""The period of the recent rate of tokens, in seconds."""
SHOWN = 5
"""How many of the rollouts in flight are listed."""

PHASES = {
    "/run": "agent",
    "/seed_session": "seed",
    "/v1/responses": "model",
    "/v1/chat/completions": "model",
    "/verify": "verify",
}


@dataclass(frozen=True, slots=True)
class Slow:
    """One of the rollouts that have been in flight longest. Ages are in seconds."""

    rollout: str
    attempt: int
    attempts: int
    agent: str
    phase: str
    awaiting: str
    phase_s: float
    age_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers that the views show. Rates are per second, and tokens are output tokens.

    `rate` covers the last minute, `overall_rate` the whole session.
    """

    elapsed_s: float
    requested: int
    scored: int
    truncated: int
    failed: int
    classes: tuple[tuple[str, int], ...]
    in_flight: int
    limit: int | None
    rate: float
    overall_rate: float
    left_s: float | None
    mean_reward: float | None
    tokens: int
    token_rate: float
    repeated: int
    retries: int
    retry_reason: str
    retry_plan: str
    """When the next retry is due; empty when no request waits for one."""
    last_failure: str
    slowest: tuple[Slow, ...]
    standing_still: tuple[str, ...] = ()
    """One sentence for each server process whose event loop is blocked."""
    stall: str = ""
    """For how long no rollout has ended, and what most wait for; empty while rollouts end."""

    @property
    def done(self) -> int:
        """The number of rollouts that have ended, with a reward or without."""
        return self.scored + self.failed


@final
class RateMeter:
    """Takes snapshots, and keeps recent counts of tokens to compute their recent rate."""

    def __init__(self, progress: Progress, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._past: deque[tuple[float, int]] = deque()
        """Moment, tokens of the rollouts that had ended."""

    def read(self) -> Snapshot:
        """Return a snapshot of this moment."""
        progress, now = self._progress, self._clock()
        accounting = progress.accounting
        scored, failed = accounting.scored, accounting.failed
        tokens = accounting.output_tokens
        pace = progress.read_pace(now)
        return Snapshot(
            elapsed_s=now - progress.started,
            requested=accounting.requested,
            scored=scored,
            truncated=accounting.ended[Outcome.TRUNCATED],
            failed=failed,
            classes=_classes(progress),
            in_flight=len(progress.in_flight),
            limit=progress.limit.limit if progress.limit is not None else None,
            rate=pace.rate,
            overall_rate=pace.overall_rate,
            left_s=pace.left_s,
            mean_reward=accounting.mean_reward,
            tokens=tokens,
            token_rate=self._token_rate(now, tokens),
            repeated=accounting.retried_attempts,
            retries=progress.retries.retries,
            retry_reason=progress.retries.last_reason,
            retry_plan=progress.retries.plan_at(now),
            last_failure=progress.last_failure,
            slowest=_slowest(progress, now),
            standing_still=tuple(progress.standing_still()),
            stall=pace.sentence if pace.health is Health.STANDING_STILL else "",
        )

    def _token_rate(self, now: float, tokens: int) -> float:
        if not self._past:
            before = self._progress
            self._past.append((before.started, before.tokens_before))
        while len(self._past) > 1 and self._past[1][0] <= now - RECENT_S:
            self._past.popleft()
        then, tokens_then = self._past[0]
        self._past.append((now, tokens))
        span = now - then
        return (tokens - tokens_then) / span if span > 0 else 0.0


def _classes(progress: Progress) -> tuple[tuple[str, int], ...]:
    """Return the number of failures of each class, the commonest class first."""
    ended_counts = progress.accounting.ended
    failure_counts = [
        (kind.value, n) for kind, n in ended_counts.items() if not kind.has_reward and n
    ]
    return tuple(sorted(failure_counts, key=lambda pair: (-pair[1], pair[0])))


def _slowest(progress: Progress, now: float) -> tuple[Slow, ...]:
    # Rollouts enter in the order of starting, so the oldest are the first: no search.
    oldest = islice(progress.in_flight.values(), SHOWN)
    return tuple(_slow(job, now, progress.max_attempts) for job in oldest)


def _slow(job: Job, now: float, attempts: int) -> Slow:
    return Slow(
        rollout=f"{job.key.task}:{job.key.rollout}",
        attempt=job.attempt,
        attempts=attempts,
        agent=job.agent,
        phase=PHASES.get(job.phase, job.phase),
        awaiting=job.awaiting,
        phase_s=now - job.since,
        age_s=now - job.started,
    )
