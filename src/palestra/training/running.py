"""One attempt at one rollout, and its result: an outcome, or a pause before another attempt."""

import random
import time
from collections.abc import Callable, Iterable
from typing import Final, final

from msgspec.structs import replace

from palestra.engine import MOST_SPARED, Deadlines, attempt, with_grace
from palestra.errors import (
    Bystander,
    CallError,
    Hopeless,
    Layer,
    PalestraError,
    RowIdentity,
    ServerDied,
    mask_error,
)
from palestra.training.capture import ModelServers
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.failing import failed, failed_by, not_repeatable
from palestra.training.jobs import Attempted, TrainingJob
from palestra.training.outcomes import Completed, Failed, FailureClass
from palestra.training.pool import Pool
from palestra.training.reading import AttemptAnswer, completed, size_of
from palestra.training.servers import DeathWatch, ending_behind, environments_of
from palestra.training.settings import ClientSettings, OnViolation
from palestra.training.stuck import Unresponsive
from palestra.transport import ConnectionFailed, ServerClient

TAKING_S: Final = 6.0
"""The longest time in seconds that fetching a rollout's turns may add to an attempt."""

Violation = InvalidLogprobs | TokenDiscontinuity


@final
class Runner:
    """Makes attempts through `client`, and decides what follows each."""

    def __init__(
        self,
        client: ServerClient,
        settings: ClientSettings,
        *,
        models: ModelServers,
        watch: DeathWatch,
        unresponsive: Unresponsive,
        repeatable: dict[str, bool],
        on_hopeless: Callable[[PalestraError], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._models = models
        self._watch = watch
        self._unresponsive = unresponsive
        self._repeatable = repeatable
        self._repeatable_agents: dict[str, bool] = {}
        self._on_hopeless = on_hopeless
        self._deadlines = Deadlines(with_grace(settings.rollout_timeout_s))

    def close(self) -> None:
        """Stop the timer of the deadlines."""
        self._deadlines.close()

    async def attempt(self, pool: Pool, job: TrainingJob) -> Attempted:
        """Make one attempt of one rollout. Return the outcome, or the pause before another attempt."""
        if job.time_is_up:
            return Attempted(too_late(job))
        try:
            outcome = await self._attempt(pool, job)
        except (Hopeless, ServerDied) as hopeless:
            mask_error(hopeless, self._client.mask)
            if isinstance(hopeless, ServerDied):
                # This rollout may have met the end of the servers before the watch over them did.
                await self._watch.settled()
            self._on_hopeless(hopeless)
            return Attempted()
        except (InvalidLogprobs, TokenDiscontinuity) as violation:
            # A death that has happened is told first: it is why others will be missing.
            await self._watch.settled()
            if isinstance(violation, InvalidLogprobs) and self._made_again(job):
                job.nan_retries += 1
                return self._attempt_again(job)
            return Attempted(violated(job, violation), violation=violation)
        except CallError as error:
            return await self._failure(pool, job, error)
        return Attempted(outcome, size_of(outcome, job.size))

    async def _failure(self, pool: Pool, job: TrainingJob, error: CallError) -> Attempted:
        """Return the outcome of a rollout whose attempt failed with `error`, or the pause before
        another attempt.
        """
        mask_error(error, self._client.mask)
        if isinstance(error, Bystander) and job.spared < MOST_SPARED:
            job.spared += 1
        if ending_behind(error) is not None:
            self._on_hopeless(error)
            return Attempted()
        outcome = failed_by(job.request, error, attempts=job.attempt)
        if outcome.failure in {FailureClass.INFRA_ERROR, FailureClass.POLICY_ERROR}:
            # A process may be dead, and how it died is worth more than "connection reset".
            await self._watch.settled()
        elif outcome.failure is FailureClass.TIMEOUT:
            outcome = await self._unresponsive.blamed(outcome)
        job.last_failure = outcome
        pool.failing(outcome)
        # What an attempt says that ran into the request's deadline is what was awaited then.
        if job.time_is_up or not self._budgeted(job, outcome):
            return Attempted(outcome)
        if self._safe_again(job, error):
            return self._attempt_again(job)
        return Attempted(not_repeatable(outcome))

    async def _attempt(self, pool: Pool, job: TrainingJob) -> Completed:
        now = time.monotonic()
        limit_s = self._settings.rollout_timeout_s
        left_s = None if job.deadline is None else job.deadline - now
        shortened = left_s is not None and left_s < limit_s
        if left_s is not None and shortened:
            limit_s = left_s
        job.weights = pool.weights
        job.stop_by = now + with_grace(limit_s) + TAKING_S + self._settings.stuck_after_s
        job.spent.clear()
        job.since = now
        identity = RowIdentity(
            job.key.task,
            job.key.rollout,
            job.attempt,
            job.agent,
            job.run,
        )
        try:
            result = await attempt(
                self._client,
                job.row,
                identity,
                job,
                limit_s=limit_s,
                deadlines=None if shortened else self._deadlines,
                call_limit_s=self._settings.call_timeout_s,
                patience_s=self._settings.endpoint_patience_s,
            )
            ended_at = time.monotonic()
            wants_tokens = self._settings.token_ids
            captured = await self._models.take(job.agent, identity) if wants_tokens else None
        except BaseException:
            # Nobody will ask for what was captured of it.
            self._models.abandon(job.agent, identity)
            raise
        return completed(
            AttemptAnswer(job, result, captured, ended_at, pool.weights),
            self._settings,
            nan_policy=OnViolation.RAISE
            if self._made_again(job)
            else self._settings.on_invalid_logprobs,
        )

    def _made_again(self, job: TrainingJob) -> bool:
        """Whether an attempt with invalid log probs is repeated."""
        return job.nan_retries < self._settings.attempts.nan_retries and self._may_repeat(job.agent)

    def _safe_again(self, job: TrainingJob, error: CallError) -> bool:
        """Whether another attempt is safe: nothing was done yet that it could do a second time."""
        return _never_arrived(error) or self._may_repeat(job.agent)

    def _budgeted(self, job: TrainingJob, outcome: Failed) -> bool:
        """Whether the failure class of the outcome has an attempt left."""
        most_attempts = self._settings.attempts.most.get(outcome.failure, 1)
        return outcome.retriable and job.attempt - job.spared < most_attempts

    def repeats_all(self, agents: Iterable[str]) -> bool:
        """Whether the environments of all these agents allow to start a rollout again."""
        return all(self._may_repeat(agent) for agent in agents)

    def may_repeat(self, job: TrainingJob) -> bool:
        """Whether an attempt that began may be followed by another one."""
        return self._may_repeat(job.agent)

    def _may_repeat(self, agent: str) -> bool:
        """Whether every environment of an agent reports that a rollout may be started again."""
        is_repeatable = self._repeatable_agents.get(agent)
        if is_repeatable is None:
            behind = environments_of(self._client, agent)
            is_repeatable = all(self._repeatable.get(name, False) for name in behind)
            self._repeatable_agents[agent] = is_repeatable
        return is_repeatable

    def _attempt_again(self, job: TrainingJob) -> Attempted:
        """Return a random pause before another attempt, cut short at the rollout's deadline."""
        pause_s = self._settings.attempts.pause_s(job.attempt) * random.uniform(0.5, 1.0)
        if job.deadline is not None:
            pause_s = min(pause_s, max(0.0, job.deadline - time.monotonic()))
        return Attempted(pause_s=pause_s)


def violated(job: TrainingJob, violation: Violation) -> Failed:
    """Return the outcome of a rollout whose tokens broke a rule."""
    return failed(
        job.request,
        FailureClass.DATA_ERROR,
        violation.message,
        layer=Layer.MODEL,
        retriable=False,
        attempts=job.attempt,
    )


def too_late(job: TrainingJob) -> Failed:
    """Return the outcome of a rollout whose deadline passed between attempts or before the first
    one.
    """
    last = job.last_failure
    if last is None:
        return failed(
            job.request,
            FailureClass.TIMEOUT,
            "its deadline passed before it could begin",
            attempts=job.attempt - 1,
        )
    return replace(
        last,
        failure=FailureClass.TIMEOUT,
        message="its deadline passed before another attempt could begin; attempt "
        f"{last.attempts} failed ({last.failure.value}): {last.message}",
    )


def _never_arrived(error: CallError) -> bool:
    """Whether the request never reached the agent, so that nothing was done with it."""
    return (
        isinstance(error, ConnectionFailed) and not error.was_sent and len(error.evidence.hops) < 2
    )
