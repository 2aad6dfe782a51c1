"""Collect rollouts: run every remaining row, with limited concurrency, and record how each ended.

A failed rollout is data: it is recorded and the others continue. Any other error (a full disk, a
rejected API key, a dead server, cancellation) ends the whole collection.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Protocol

from palestra.engine import (
    MOST_SPARED,
    Accounting,
    ConcurrencyLimit,
    Deadlines,
    Engine,
    Job,
    JobRoom,
    JobStage,
    went_on,
    with_grace,
)
from palestra.engine import attempt as run_attempt
from palestra.errors import (
    Bystander,
    CallError,
    EndpointRefuses,
    Hopeless,
    KeptWaiting,
    RowIdentity,
    ServerDied,
    mask_error,
    status_for,
)
from palestra.rollouts.journal import Journal
from palestra.rollouts.observed import (
    NOTHING_REPORTED,
    RolloutCapture,
    attempt_row,
    reported_fields,
)
from palestra.rollouts.pace import Pace, PaceReading
from palestra.rollouts.results import FailedRow, Scored, failed, scored
from palestra.schema import (
    AGENT_REF,
    RETRIABLE_CLASSES,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonObject,
    ReverifyCommand,
    RolloutKey,
    VerifyResponse,
    encode_json,
)
from palestra.transport import REPORT_EVERY_S, RetryCount, ServerClient, add_verify_request

LAST_REPORT_S = 0.2
"""How long the end of a run waits for the last reports of its model servers on their retries."""
MOST_LISTED = 20_000
"""The largest number of rollouts in flight that are listed, the oldest first."""


@dataclass(slots=True)
class Progress:
    """The state of a collection. `in_flight`: the running rollouts, in the order of their start."""

    accounting: Accounting
    in_flight: Mapping[Hashable, Job] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    last_failure: str = ""
    done_before: int = 0
    """The number of rollouts that ended before this session."""
    tokens_before: int = 0
    """The number of output tokens of the rollouts that ended before this session."""
    retries: RetryCount = field(default_factory=RetryCount)
    """The requests that this process and the model servers of other processes retried."""
    max_attempts: int = 1
    standing_still: Callable[[], Sequence[str]] = tuple
    """Returns one sentence for each server process whose event loop is blocked now."""
    limit: ConcurrencyLimit | None = None
    """The adaptive concurrency limit; None when the limit is fixed."""
    pace: Pace = field(default_factory=Pace)

    def read_pace(self, now: float | None = None) -> PaceReading:
        """Return how fast rollouts end. `now`: on the monotonic clock. May be called on any thread."""
        accounting = self.accounting
        return self.pace.read(
            time.monotonic() if now is None else now,
            started=self.started,
            ended_count=accounting.scored + accounting.failed - self.done_before,
            remaining=accounting.remaining,
            jobs=self.jobs,
            in_flight=len(self.in_flight),
        )

    def jobs(self) -> list[Job]:
        """Return the rollouts in flight, the oldest first. May be called on any thread."""
        for _ in range(100):
            with suppress(RuntimeError):  # it grew while it was copied
                return list(self.in_flight.values())[:MOST_LISTED]
        return []


class Observer(Protocol):
    """Receives events about rollouts. Its methods run on the event loop, so they must be fast and
    must not raise.
    """

    def rollout_started(self, key: RolloutKey, job: Job, /) -> None:
        """Handle the start of a rollout's first attempt."""

    def attempt_ended(self, result: Scored | FailedRow, job: Job, /) -> None:
        """Handle a recorded attempt. It is the rollout's last when it is scored or terminal."""


logger = logging.getLogger("palestra.rollouts")

SYNC_EVERY_S = 2.0
LOOK_EVERY_S = 0.5
"""The interval in seconds between checks for refusals when the concurrency is adaptive, so that
refusals count even while no rollout ends."""


@dataclass(frozen=True, slots=True)
class CollectionLimits:
    """The limits of a collection. `rollout_timeout_s` applies to one attempt.

    `attempt_pause_s`: the pause after the first failed attempt. After each further one, the pause
    is longer by the same amount.
    """

    in_flight: int | None = None
    rollout_timeout_s: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0
    patience_s: float | None = None
    """The time in seconds that a model endpoint may refuse all requests. None: without limit."""
    stuck_after_s: float = 5.0
    """The extra time in seconds for an attempt to stop after its deadline. After it, the attempt is
    abandoned."""


class Collector:
    """Runs rows against their agents through `client` and writes the results to a journal. It is
    the engine's `Work`.
    """

    def __init__(
        self,
        client: ServerClient,
        journal: Journal,
        accounting: Accounting,
        *,
        limits: CollectionLimits,
        run_id: str = "",
        observers: Sequence[Observer] = (),
        room: JobRoom | None = None,
        verified_again: ReverifyCommand | None = None,
    ) -> None:
        """Create a collector.

        `room`: adapts the concurrency; None: the concurrency is fixed. `verified_again`: the
        command that verifies again the responses kept in the failures file.
        """
        self._client = client
        self._verified_again = verified_again
        self._journal = journal
        self._capture = RolloutCapture.of(client.tree)
        self._accounting = accounting
        self._limits = limits
        self._run_id = run_id
        within_s = with_grace(limits.rollout_timeout_s)
        self._deadlines = Deadlines(within_s)
        self._room = room
        self._got_something_at: float | None = None
        """When a rollout ended last for which endpoints had answered, a `time.monotonic()` value."""
        self._pending: Iterator[JsonObject] = iter(())
        self._most = 0
        self._spent_before: Mapping[RolloutKey, int] = {}
        """Failed attempts of earlier sessions."""
        self._observers = tuple(observers)
        self._engine: Engine[Job, Scored | FailedRow] = Engine(
            self, overdue_s=within_s + limits.stuck_after_s
        )
        self.progress = Progress(
            accounting,
            in_flight=self._engine.jobs,
            done_before=accounting.scored + accounting.failed,
            tokens_before=accounting.output_tokens,
            retries=client.retries,
            max_attempts=limits.max_attempts,
            standing_still=client.standing_still,
            limit=room.limit if room is not None else None,
        )

    async def collect(
        self,
        rows: Iterable[JsonObject],
        *,
        count: int,
        failed_before: Mapping[RolloutKey, int] | None = None,
    ) -> None:
        """Run `rows`; `count` is their number. Raises the error that ended the collection early.

        `failed_before`: the number of attempts that earlier sessions spent on each rollout.
        """
        self._spent_before = failed_before or {}
        self._pending = iter(rows)
        self._most = min(count, self._limits.in_flight or count)
        no_more_rows = asyncio.Event()
        with closing(self._deadlines):
            async with asyncio.TaskGroup() as tasks:
                syncing = tasks.create_task(self._sync(no_more_rows), name="journal sync")
                reading = tasks.create_task(self._read_retries(), name="retries of other processes")
                looking = tasks.create_task(self._watch()) if self._room is not None else None
                await self._engine.run(look_every_s=self._limits.stuck_after_s / 4)
                if looking is not None:
                    looking.cancel()
                reading.cancel()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_REPORT_S):
                        await self._client.add_retries_of_servers()
                no_more_rows.set()
                await syncing

    def take(self, running: int, /) -> Job | None:
        """Return the job of the next row; None when no further job may run or no row is left."""
        if running >= (self._most if self._room is None else self._room.limit.limit):
            return None
        row = next(self._pending, None)
        if row is None:
            return None
        key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
        now = time.monotonic()
        job = Job(
            key=key,
            agent=str(row[AGENT_REF]["name"]),
            row=row,
            since=now,
            started=now,
            attempt=self._spent_before.get(key, 0),
        )
        for observer in self._observers:
            observer.rollout_started(key, job)
        return job

    def settle(self, job: Job, result: Scored | FailedRow, /) -> float | None:
        """Record how an attempt ended, count it, and notify the observers. Return the pause before
        the next attempt; None after the last.
        """
        self._journal.append(result)
        is_last = self._count(result)
        self.progress.pace.attempt_ended(
            time.monotonic(), failed=isinstance(result, FailedRow), is_last=is_last
        )
        for observer in self._observers:
            observer.attempt_ended(result, job)
        if self._room is not None:
            self._room.attempt_ended(
                result.outcome, began=job.attempt_started, in_flight=len(self.progress.in_flight)
            )
            self._engine.fill()
        if is_last:
            return None
        pause_s = self._limits.attempt_pause_s * job.attempt
        if isinstance(result, FailedRow) and result.spared:
            job.spare()
        return pause_s

    def abandoned(self, job: Job, /) -> FailedRow:
        """Return the failure of an attempt that keeps running after it was cancelled."""
        error = went_on(job.describe(), self._limits.rollout_timeout_s)
        return self._failure(job, add_verify_request(error, job))

    async def _watch(self) -> None:
        while self._room is not None:
            await asyncio.sleep(LOOK_EVERY_S)
            self._room.look(len(self.progress.in_flight))
            self._engine.fill()

    async def _read_retries(self) -> None:
        # What the first report of a server has came before this run, and is not counted.
        while True:
            await self._client.add_retries_of_servers()
            await asyncio.sleep(REPORT_EVERY_S)

    async def _sync(self, no_more_rows: asyncio.Event) -> None:
        while not no_more_rows.is_set():
            try:
                async with asyncio.timeout(SYNC_EVERY_S):
                    await no_more_rows.wait()
            except TimeoutError:
                pass
            await self._journal.sync_aside()

    @property
    def _leaves_files(self) -> bool:
        """Whether the run has recorded anything that remains on disk if the run ends early."""
        counted = self._accounting
        return bool(counted.ended or counted.retried_attempts or self._spent_before)

    def _count(self, result: Scored | FailedRow) -> bool:
        """Count one attempt. Return whether it was the rollout's last."""
        if isinstance(result, Scored):
            self._got_something_at = time.monotonic()
            self._accounting.score(result.ending, result.key)
            return True
        self.progress.last_failure = f"{result.key} {result.outcome.value}: {result.message}"
        if result.terminal:
            if result.outcome not in RETRIABLE_CLASSES:
                self._got_something_at = time.monotonic()
            self._accounting.fail(result.outcome)
            return True
        self._accounting.retried_attempts += 1
        return False

    def _gets_something(self) -> bool:
        """Whether some rollout got responses from endpoints within the last `patience_s` seconds."""
        patience_s, latest = self._limits.patience_s, self._got_something_at
        return (
            patience_s is not None and latest is not None and time.monotonic() - latest < patience_s
        )

    def _report(self, error: CallError, job: Job) -> None:
        """Mask the secrets in a failure and write it to the debug log."""
        mask_error(error, self._client.mask)
        if self._client.debug:
            hops = error.evidence.hops
            status = hops[0].status if hops else status_for(error)
            counts = {
                TASK_INDEX: job.key.task,
                ROLLOUT_INDEX: job.key.rollout,
                "agent_name": job.agent,
            }
            logger.error(
                "[rollout_collection] /run failed status=%s row=%s",
                "none" if status is None else status,
                encode_json(counts).decode(),
            )

    async def attempt(self, job: Job, /) -> Scored | FailedRow:
        """Run one attempt. Raises `Hopeless`: every other rollout would fail in the same way. Raises
        ServerDied: the fleet has ended because of something else than this attempt.
        """
        identity = self._identity(job)
        try:
            return await self._attempt(job, identity)
        except (ServerDied, asyncio.CancelledError):
            # The end of the fleet ends this collection, and no other attempt can fail by it.
            failure = self._client.ending_failure()
            if failure is None or failure.evidence.row != identity:
                raise
            return self._failure(job, add_verify_request(failure, job))

    def _identity(self, job: Job) -> RowIdentity:
        key = job.key
        return RowIdentity(key.task, key.rollout, job.attempt, job.agent, self._run_id)

    async def _attempt(self, job: Job, identity: RowIdentity) -> Scored | FailedRow:
        row = attempt_row(job.row, job.attempt)
        reported = NOTHING_REPORTED
        try:
            if self._capture is not None:
                await self._capture.clear(row)
            result = await run_attempt(
                self._client,
                row,
                identity,
                job,
                limit_s=self._limits.rollout_timeout_s,
                deadlines=self._deadlines,
                patience_s=self._limits.patience_s,
            )
            answer: VerifyResponse | JsonObject = result
            if self._capture is not None:
                answer = await self._capture.attached(row, result)
            try:
                return scored(row, answer)
            except CallError:
                reported = reported_fields(answer)
                raise
        except CallError as error:
            ends_run = isinstance(error, Hopeless)
            if isinstance(error, EndpointRefuses) and self._gets_something():
                # A process knows the refusals of its own endpoint, and others of the run answer.
                ends_run, error.retriable = False, True
            failure = self._failure(
                job, add_verify_request(error, job), ends_run=ends_run, reported=reported
            )
            if not ends_run or job.state is JobStage.ABANDONED:
                return failure
            # Every other rollout would fail the same way: say it once and stop.
            if self._leaves_files or error.verify_request:
                # A run of which nothing else is there leaves no files that were in the way later.
                self._journal.append(failure)
                for observer in self._observers:
                    observer.attempt_ended(failure, job)
            raise

    def _failure(
        self,
        job: Job,
        error: CallError,
        *,
        ends_run: bool = False,
        reported: JsonObject = NOTHING_REPORTED,
    ) -> FailedRow:
        self._report(error, job)
        elapsed_s = time.monotonic() - job.attempt_started
        return failed(
            attempt_row(job.row, job.attempt),
            error,
            attempt=job.attempt,
            max_attempts=self._limits.max_attempts,
            started_at=time.time() - elapsed_s,
            elapsed_s=elapsed_s,
            reverify_command=self._verified_again,
            ended_run=ends_run,
            spared=isinstance(error, Bystander | KeptWaiting) and job.spared < MOST_SPARED,
            reported=reported,
        )
