"""One rollout from its start to its outcome: attempts, budgets, pauses, deadlines."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final, final

from msgspec.structs import replace

from palestra.engine import MOST_SPARED, Deadlines, attempt, with_grace
from palestra.errors import Bystander, CallError, Hopeless, Layer, RowIdentity, mask_error
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX
from palestra.training.capture import ModelServers
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.failing import failed, failed_by, not_repeatable
from palestra.training.flights import Flight, Ticket
from palestra.training.lanes import Lane
from palestra.training.outcomes import Completed, Failed, FailureClass
from palestra.training.pool import Pool
from palestra.training.reading import Answer, completed, size_of
from palestra.training.servers import DeathWatch, ending_behind, environments_of
from palestra.training.settings import ClientSettings, OnViolation
from palestra.training.stuck import Unresponsive
from palestra.transport import ConnectionFailed, ServerClient

TAKING_S: Final = 6.0
"""What asking the model servers for a rollout's turns may add to an attempt."""

Violation = InvalidLogprobs | TokenDiscontinuity


@final
class Runner:
    """Flies tickets to their end, through `client`; outcomes go to `pool`."""

    def __init__(
        self,
        client: ServerClient,
        settings: ClientSettings,
        *,
        models: ModelServers,
        watch: DeathWatch,
        unresponsive: Unresponsive,
        repeatable: dict[str, bool],
        on_hopeless: Callable[[CallError], None],
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

    async def run(self, pool: Pool, lane: Lane, ticket: Ticket, flight: Flight) -> None:
        """All attempts of one rollout. Returns once it has its outcome, whoever gave it."""
        nan_retries = self._settings.attempts.nan_retries
        if not self._may_repeat(ticket.agent):
            nan_retries = 0
        while not ticket.over:
            outcome: Completed | Failed | None = None
            try:
                outcome = await self._attempt(pool, ticket, flight, nan_retries=nan_retries)
            except Hopeless as hopeless:
                mask_error(hopeless, self._client.mask)
                self._on_hopeless(hopeless)
                return
            except (InvalidLogprobs, TokenDiscontinuity) as violation:
                # A death that has happened is told first: it is why others will be missing.
                await self._watch.settled()
                if isinstance(violation, TokenDiscontinuity) or nan_retries < 1:
                    self._violated(pool, lane, ticket, violation)
                    return
                nan_retries -= 1
            except CallError as error:
                outcome = await self._failure(pool, ticket, flight, error)
            if outcome is not None:
                size = size_of(outcome, ticket.size) if isinstance(outcome, Completed) else 0
                pool.settle(lane, outcome, size)
            elif not ticket.over:
                lane.batch.retried += 1
                await self._pause(ticket, flight)

    async def _failure(
        self, pool: Pool, ticket: Ticket, flight: Flight, error: CallError
    ) -> Failed | None:
        """The outcome of a rollout whose attempt failed so; None when it gets another one."""
        mask_error(error, self._client.mask)
        if isinstance(error, Bystander) and ticket.spared < MOST_SPARED:
            ticket.spared += 1
        if ending_behind(error) is not None:
            self._on_hopeless(error)
            return None
        outcome = failed_by(ticket.request, error, attempts=ticket.attempts)
        if outcome.failure in {FailureClass.INFRA_ERROR, FailureClass.POLICY_ERROR}:
            # A process may be dead, and how it died is worth more than "connection reset".
            await self._watch.settled()
        elif outcome.failure is FailureClass.TIMEOUT:
            outcome = await self._unresponsive.blamed(outcome)
        flight.last_failure = outcome
        pool.failing(outcome)
        # What an attempt says that ran into the request's deadline is what was awaited then.
        if ticket.time_is_up or not self._budgeted(ticket, outcome):
            return outcome
        return None if self._safe_again(ticket, error) else not_repeatable(outcome)

    async def _attempt(
        self, pool: Pool, ticket: Ticket, flight: Flight, *, nan_retries: int
    ) -> Completed | Failed:
        if ticket.time_is_up:
            return _too_late(ticket, flight)
        now = time.monotonic()
        limit_s = self._settings.rollout_timeout_s
        left_s = None if ticket.deadline is None else ticket.deadline - now
        shortened = left_s is not None and left_s < limit_s
        if left_s is not None and shortened:
            limit_s = left_s
        self._begin(pool, ticket, flight, now, limit_s)
        identity = RowIdentity(
            ticket.row[TASK_INDEX],
            ticket.row[ROLLOUT_INDEX],
            ticket.attempts,
            ticket.agent,
            ticket.run,
        )
        try:
            result = await attempt(
                self._client,
                ticket.row,
                identity,
                flight,
                limit_s=limit_s,
                deadlines=None if shortened else self._deadlines,
                call_limit_s=self._settings.call_timeout_s,
                patience_s=self._settings.endpoint_patience_s,
            )
            ended = time.monotonic()
            wanted = self._settings.token_ids
            captured = await self._models.take(ticket.agent, identity) if wanted else None
        except BaseException:
            # Nobody will ask for what was captured of it.
            self._models.abandon(ticket.agent, identity)
            raise
        return completed(
            Answer(ticket, flight, result, captured, ended, pool.weights),
            self._settings,
            nan_policy=OnViolation.RAISE if nan_retries > 0 else self._settings.on_invalid_logprobs,
        )

    def _begin(
        self, pool: Pool, ticket: Ticket, flight: Flight, now: float, limit_s: float
    ) -> None:
        ticket.attempts += 1
        ticket.began = now
        ticket.weights = pool.weights
        ticket.stop_by = now + with_grace(limit_s) + TAKING_S + self._settings.stuck_after_s
        flight.attempt, flight.attempt_started = ticket.attempts, now
        flight.verify_request = None
        flight.spent.clear()
        flight.since = now

    def _safe_again(self, ticket: Ticket, error: CallError) -> bool:
        """Whether nothing can have been done that another attempt would do twice."""
        return _never_arrived(error) or self._may_repeat(ticket.agent)

    def _budgeted(self, ticket: Ticket, outcome: Failed) -> bool:
        """Whether its class of failure has an attempt left."""
        most = self._settings.attempts.most.get(outcome.failure, 1)
        return outcome.retriable and ticket.attempts - ticket.spared < most

    def _may_repeat(self, agent: str) -> bool:
        """Whether every environment behind an agent says that a rollout may be begun again."""
        known = self._repeatable_agents.get(agent)
        if known is None:
            behind = environments_of(self._client, agent)
            known = all(self._repeatable.get(name, False) for name in behind)
            self._repeatable_agents[agent] = known
        return known

    async def _pause(self, ticket: Ticket, flight: Flight) -> None:
        flight.now("waiting", "the next attempt")
        ticket.stop_by = None
        pause_s = self._settings.attempts.pause_s(ticket.attempts) * random.uniform(0.5, 1.0)
        if ticket.deadline is not None:
            pause_s = min(pause_s, max(0.0, ticket.deadline - time.monotonic()))
        await asyncio.sleep(pause_s)

    def _violated(self, pool: Pool, lane: Lane, ticket: Ticket, violation: Violation) -> None:
        """The batch ends with a rule of tokens that was broken, unless it has ended already."""
        if ticket.over:
            return
        lane.batch.settle(
            failed(
                ticket.request,
                FailureClass.DATA_ERROR,
                violation.message,
                layer=Layer.MODEL,
                retriable=False,
                attempts=ticket.attempts,
            )
        )
        pool.fail(lane, violation)


def _too_late(ticket: Ticket, flight: Flight) -> Failed:
    """Its deadline has passed between two attempts, or before the first one."""
    last = flight.last_failure
    if last is None:
        return failed(
            ticket.request,
            FailureClass.TIMEOUT,
            "its deadline passed before it could begin",
            attempts=ticket.attempts,
        )
    return replace(
        last,
        failure=FailureClass.TIMEOUT,
        message="its deadline passed before another attempt could begin; attempt "
        f"{last.attempts} failed ({last.failure.value}): {last.message}",
    )


def _never_arrived(error: CallError) -> bool:
    """Whether the agent never got the request, so that nothing can have been done with it."""
    return isinstance(error, ConnectionFailed) and not error.sent and len(error.evidence.hops) < 2
