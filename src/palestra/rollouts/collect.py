"""Collecting: run every remaining row, at most so many at once, and write down how each ended.

A failed rollout is data: it is recorded and its siblings carry on. Anything else (a full disk,
a rejected API key, a dead server, cancellation) ends the whole collection.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from palestra.errors import (
    Bystander,
    CallError,
    EndpointRefuses,
    Hopeless,
    RowIdentity,
    mask_error,
    status_for,
)
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.admission import Admission
from palestra.rollouts.attempt import attempt as run_attempt
from palestra.rollouts.attempt import with_grace
from palestra.rollouts.deadlines import Deadlines
from palestra.rollouts.journal import Journal
from palestra.rollouts.progress import InFlight, Observer, Progress
from palestra.rollouts.results import (
    MOST_SPARED,
    WORTH_ANOTHER_ATTEMPT,
    Failed,
    Scored,
    failed,
    scored,
    went_on,
)
from palestra.rollouts.tasks import BoundedTasks
from palestra.schema import (
    AGENT_REF,
    ROLLOUT_INDEX,
    TASK_INDEX,
    RolloutKey,
    encode_json,
)
from palestra.transport import ServerClient, add_verify_request

logger = logging.getLogger("palestra.rollouts")

SYNC_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a collection; `rollout_timeout_s` covers one attempt.

    `attempt_pause_s` comes after the first failed attempt; it grows by as much with each other.
    """

    in_flight: int | None = None
    rollout_timeout_s: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0
    patience_s: float | None = None
    """For how long a model endpoint may refuse everything; None: as long as it takes."""
    stuck_after_s: float = 5.0
    """What an attempt gets beyond its deadline to let itself be stopped. Then it is left behind."""


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
        verified_again: str = "",
    ) -> None:
        """`verified_again`: the command that verifies again what is kept in the failures file."""
        self._client = client
        self._verified_again = verified_again
        self._journal = journal
        self._accounting = accounting
        self._limits = limits
        self._run_id = run_id
        within_s = with_grace(limits.rollout_timeout_s)
        self._deadlines = Deadlines(within_s)
        self._stuck_after_s = within_s + limits.stuck_after_s
        self._admission = admission
        self._got_something_at: float | None = None
        """When a rollout ended last for which endpoints had answered, a `time.monotonic()` value."""
        self._spent_before = False
        """Whether earlier sessions left failed attempts."""
        # What is not there costs nothing: the tuple is empty then.
        self._observers = (*observers, admission) if admission is not None else tuple(observers)
        self.progress = Progress(
            accounting,
            done_before=accounting.scored + accounting.failed,
            tokens_before=accounting.output_tokens,
            retries=client.retries,
            max_attempts=limits.max_attempts,
            standing_still=client.standing_still,
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
        self._spent_before = bool(spent)
        pending = iter(rows)
        workers = min(count, self._limits.in_flight or count)
        done = asyncio.Event()

        async def one(row: Mapping[str, Any]) -> bool:
            key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
            return await self._rollout(row, key, first=1 + spent.get(key, 0))

        async def worker() -> None:
            # The shared iterator is the back-pressure: a row is read when it can run.
            for row in pending:
                if not await one(row):
                    return  # left behind: another works in its place

        with closing(self._deadlines):
            async with asyncio.TaskGroup() as tasks:
                syncing = tasks.create_task(self._sync(done), name="journal sync")
                async with BoundedTasks() as running:
                    watching = tasks.create_task(self._leave_stuck(running, worker))
                    if self._admission is not None:
                        await self._admission.run(pending, one, running)
                    else:
                        for _ in range(workers):
                            running.start(worker())
                watching.cancel()
                done.set()
                await syncing

    async def _leave_stuck(
        self, running: BoundedTasks, worker: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Give up attempts that go on after they were cancelled, and go on without them."""
        pause_s = self._limits.stuck_after_s / 4
        while True:
            await asyncio.sleep(pause_s)
            suspects = self._stuck()
            if suspects:
                # A loop that stood still has cancelled nobody yet: it gets the time to.
                await asyncio.sleep(pause_s)
            still = {key: flight.attempt for key, flight in self._stuck()}
            for key, flight in suspects:
                if still.get(key) == flight.attempt:
                    self._leave(key, flight, running, worker)

    def _leave(
        self,
        key: RolloutKey,
        flight: InFlight,
        running: BoundedTasks,
        worker: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Record an attempt as failed while it goes on, and run what comes after it elsewhere."""

        async def again() -> bool:
            return over or await self._rollout(flight.row, key, first=flight.attempt + 1, of=flight)

        async def instead() -> None:
            if await again():  # else this one has been left behind, too
                await worker()

        flight.left_behind, flight.attempting = True, False
        over = self._settle(self._went_on(key, flight), flight)
        if over:
            del self.progress.in_flight[key]
        if self._admission is None:
            running.start(instead())
        else:
            running.start(self._admission.counted(again))
        if flight.task is not None:
            running.leave(flight.task)
            if self._admission is not None:
                self._admission.leave(flight.task)

    def _stuck(self) -> list[tuple[RolloutKey, InFlight]]:
        """Attempts that should have ended. The oldest rollouts come first, so few are looked at."""
        latest = time.monotonic() - self._stuck_after_s
        old = takewhile(lambda item: item[1].started < latest, self.progress.in_flight.items())
        return [
            (key, flight)
            for key, flight in old
            if flight.attempting and flight.attempt_started < latest
        ]

    def _went_on(self, key: RolloutKey, flight: InFlight) -> Failed:
        error = went_on(flight.describe(), self._limits.rollout_timeout_s)
        add_verify_request(error, flight)
        self._tell(error, flight.row, key)
        elapsed_s = time.monotonic() - flight.attempt_started
        return failed(
            flight.row,
            error,
            attempt=flight.attempt,
            max_attempts=self._limits.max_attempts,
            started_at=time.time() - elapsed_s,
            elapsed_s=elapsed_s,
            again=self._verified_again,
        )

    async def _sync(self, done: asyncio.Event) -> None:
        while not done.is_set():
            try:
                async with asyncio.timeout(SYNC_EVERY_S):
                    await done.wait()
            except TimeoutError:
                pass
            await self._journal.sync_aside()

    async def _rollout(
        self, row: Mapping[str, Any], key: RolloutKey, *, first: int, of: InFlight | None = None
    ) -> bool:
        """All attempts of one rollout, from its `first` on; False when it was left behind.

        `of`: the earlier attempts, when these were left behind.
        """
        now = time.monotonic()
        flight = InFlight(
            since=now,
            started=of.started if of is not None else now,
            agent=str(row[AGENT_REF]["name"]),
            row=row,
            task=asyncio.current_task(),
        )
        # In the place of those: the oldest rollouts stay first.
        self.progress.in_flight[key] = flight
        if of is None:
            for observer in self._observers:
                observer.rollout_started(key, flight)
        try:
            attempt = first
            while attempt <= self._limits.max_attempts:
                flight.attempting = True
                result = await self._attempt(row, key, attempt, flight)
                if flight.left_behind:
                    return False
                flight.attempting = False
                if self._settle(result, flight):
                    return True
                flight.now("waiting", "the next attempt")
                await asyncio.sleep(self._limits.attempt_pause_s * attempt)
                if isinstance(result, Failed) and result.spared:
                    flight.spared += 1
                else:
                    attempt += 1
        finally:
            if not flight.left_behind:
                del self.progress.in_flight[key]
        return True

    def _settle(self, result: Scored | Failed, flight: InFlight) -> bool:
        """Write down how an attempt ended, count it and tell it; whether it was the last."""
        self._journal.append(result)
        over = self._count(result)
        for observer in self._observers:
            observer.attempt_ended(result, flight)
        return over

    @property
    def _leaves_files(self) -> bool:
        """Whether something is on disk that outlives a run which ends early."""
        counted = self._accounting
        return bool(counted.ended or counted.retried_attempts or self._spent_before)

    def _count(self, result: Scored | Failed) -> bool:
        """Account for one attempt; whether it was the rollout's last."""
        if isinstance(result, Scored):
            self._got_something_at = time.monotonic()
            self._accounting.score(result.ending)
            return True
        self.progress.last_failure = f"{result.key} {result.outcome.value}: {result.message}"
        if result.terminal:
            if result.outcome not in WORTH_ANOTHER_ATTEMPT:
                self._got_something_at = time.monotonic()
            self._accounting.fail(result.outcome)
            return True
        self._accounting.retried_attempts += 1
        return False

    def _gets_something(self) -> bool:
        """Whether a rollout has ended, with what endpoints answered, within the run's patience."""
        patience_s, latest = self._limits.patience_s, self._got_something_at
        return (
            patience_s is not None and latest is not None and time.monotonic() - latest < patience_s
        )

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
        started_at, started = time.time(), time.monotonic()
        flight.attempt, flight.attempt_started = attempt, started
        flight.verify_request = None
        identity = RowIdentity(key.task, key.rollout, attempt, flight.agent, self._run_id)
        try:
            result = await run_attempt(
                self._client,
                row,
                identity,
                flight,
                limit_s=self._limits.rollout_timeout_s,
                deadlines=self._deadlines,
                patience_s=self._limits.patience_s,
            )
            return scored(row, result)
        except CallError as error:
            self._tell(add_verify_request(error, flight), row, key)
            ends_run = isinstance(error, Hopeless)
            if isinstance(error, EndpointRefuses) and self._gets_something():
                # A process knows the refusals of its own endpoint, and others of the run answer.
                ends_run, error.retriable = False, True
            ended = failed(
                row,
                error,
                attempt=attempt,
                max_attempts=self._limits.max_attempts,
                started_at=started_at,
                elapsed_s=time.monotonic() - started,
                again=self._verified_again,
                ended_run=ends_run,
                spared=isinstance(error, Bystander) and flight.spared < MOST_SPARED,
            )
            if not ends_run:
                return ended
            # Every other rollout would fail the same way: say it once and stop.
            if self._leaves_files or error.verify_request:
                # A run of which nothing else is there leaves no files that were in the way later.
                self._journal.append(ended)
                for observer in self._observers:
                    observer.attempt_ended(ended, flight)
            raise
