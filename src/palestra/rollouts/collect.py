"""Collecting: run every remaining row, at most so many at once, and write down how each ended.

A failed rollout is data: it is recorded and its siblings carry on. Anything else (a full disk,
a rejected API key, a dead server, cancellation) ends the whole collection.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from palestra.errors import (
    CallError,
    Hopeless,
    RowIdentity,
    mask_error,
    status_for,
)
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.admission import Admission
from palestra.rollouts.deadlines import Deadlines
from palestra.rollouts.journal import Journal
from palestra.rollouts.progress import InFlight, Observer, Progress
from palestra.rollouts.results import Failed, Scored, failed, scored, timed_out
from palestra.rollouts.tasks import BoundedTasks
from palestra.schema import (
    AGENT_REF,
    ROLLOUT_INDEX,
    TASK_INDEX,
    RolloutKey,
    VerifyResponse,
    encode_json,
)
from palestra.transport import CallContext, ServerClient, calling

logger = logging.getLogger("palestra.rollouts")

SYNC_EVERY_S = 2.0

LONGEST_GRACE_S = 0.5
SHARE_OF_GRACE = 0.25
"""After its deadline an attempt gets a moment more, a share of it: the servers that gave up at the
deadline know what was awaited, and their answers are on the way."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a collection; `rollout_timeout_s` covers one attempt.

    `attempt_pause_s` comes after the first failed attempt; it grows by as much with each other.
    """

    in_flight: int | None = None
    rollout_timeout_s: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0


class Collector:
    """Runs rows against their agents through `client`."""

    def __init__(
        self,
        client: ServerClient,
        journal: Journal,
        accounting: Accounting,
        *,
        limits: Limits,
        run_id: str = "",
        observers: Sequence[Observer] = (),
        admission: Admission | None = None,
    ) -> None:
        self._client = client
        self._journal = journal
        self._accounting = accounting
        self._limits = limits
        self._run_id = run_id
        limit_s = limits.rollout_timeout_s
        self._deadlines = Deadlines(limit_s + min(LONGEST_GRACE_S, limit_s * SHARE_OF_GRACE))
        self._admission = admission
        # What is not there costs nothing: the tuple is empty then.
        self._observers = (*observers, admission) if admission is not None else tuple(observers)
        self.progress = Progress(
            accounting,
            done_before=accounting.scored + accounting.failed,
            tokens_before=accounting.output_tokens,
            retries=client.retries,
            max_attempts=limits.max_attempts,
            limit=admission.limit if admission is not None else None,
        )

    async def collect(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        count: int,
        failed_before: Mapping[RolloutKey, int] | None = None,
    ) -> None:
        """Run `rows`, of which there are `count`. Raises what ended the collection early.

        `failed_before`: attempts that earlier sessions spent on a rollout.
        """
        spent = failed_before or {}
        pending = iter(rows)
        workers = min(count, self._limits.in_flight or count)
        done = asyncio.Event()

        async def one(row: Mapping[str, Any]) -> None:
            key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
            await self._rollout(row, key, first=1 + spent.get(key, 0))

        async def worker() -> None:
            # The shared iterator is the back-pressure: a row is read when it can run.
            for row in pending:
                await one(row)

        with closing(self._deadlines):
            async with asyncio.TaskGroup() as tasks:
                syncing = tasks.create_task(self._sync(done), name="journal sync")
                if self._admission is not None:
                    await self._admission.run(pending, one)
                else:
                    async with BoundedTasks() as running:
                        for _ in range(workers):
                            running.start(worker())
                done.set()
                await syncing

    async def _sync(self, done: asyncio.Event) -> None:
        while not done.is_set():
            try:
                async with asyncio.timeout(SYNC_EVERY_S):
                    await done.wait()
            except TimeoutError:
                pass
            await self._journal.sync_aside()

    async def _rollout(self, row: Mapping[str, Any], key: RolloutKey, *, first: int) -> None:
        """All attempts of one rollout, from its `first` on."""
        now = time.monotonic()
        flight = InFlight(since=now, started=now, agent=str(row[AGENT_REF]["name"]))
        self.progress.in_flight[key] = flight
        for observer in self._observers:
            observer.rollout_started(key, flight)
        try:
            for attempt in range(first, self._limits.max_attempts + 1):
                result = await self._attempt(row, key, attempt, flight)
                self._journal.append(result)
                over = self._count(result)
                for observer in self._observers:
                    observer.attempt_ended(result, flight)
                if over:
                    return
                flight.now("waiting", "the next attempt")
                await asyncio.sleep(self._limits.attempt_pause_s * attempt)
        finally:
            del self.progress.in_flight[key]

    def _count(self, result: Scored | Failed) -> bool:
        """Account for one attempt; whether it was the rollout's last."""
        if isinstance(result, Scored):
            self._accounting.score(result.outcome, result.reward, result.output_tokens)
            return True
        self.progress.last_failure = f"{result.key} {result.outcome.value}: {result.message}"
        if result.terminal:
            self._accounting.fail(result.outcome)
            return True
        self._accounting.retried_attempts += 1
        return False

    def _tell(self, error: CallError, row: Mapping[str, Any], key: RolloutKey) -> None:
        """Take the secrets out of a failure, and put it on the debug log."""
        mask_error(error, self._client.mask)
        if self._client.debug:
            hops = error.evidence.hops
            status = hops[0].status if hops else status_for(error)
            shown = {
                TASK_INDEX: key.task,
                ROLLOUT_INDEX: key.rollout,
                "agent_name": row[AGENT_REF]["name"],
            }
            logger.error(
                "[rollout_collection] /run failed status=%s row=%s",
                "none" if status is None else status,
                encode_json(shown).decode(),
            )

    async def _attempt(
        self, row: Mapping[str, Any], key: RolloutKey, attempt: int, flight: InFlight
    ) -> Scored | Failed:
        limit_s = self._limits.rollout_timeout_s
        started_at, started = time.time(), time.monotonic()
        flight.attempt, flight.attempt_started = attempt, started
        context = CallContext(
            row=RowIdentity(key.task, key.rollout, attempt, flight.agent, self._run_id),
            deadline=started + limit_s,
            activity=flight,
        )
        try:
            async with asyncio.timeout(None) as limit:
                with calling(context), self._deadlines.over(limit):
                    peer = self._client.peer(flight.agent)
                    result = await peer.call("/run", row, VerifyResponse)
                    return scored(row, result)
        except Hopeless as hopeless:
            # Every other rollout would fail the same way: say it once and stop.
            self._tell(hopeless, row, key)
            raise
        except TimeoutError:
            error: CallError = timed_out(flight.describe(), limit_s)
        except CallError as failure:
            error = failure
        self._tell(error, row, key)
        return failed(
            row,
            error,
            attempt=attempt,
            max_attempts=self._limits.max_attempts,
            started_at=started_at,
            elapsed_s=time.monotonic() - started,
        )
