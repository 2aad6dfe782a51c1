"""`Handle`: one submission, as the trainer uses it."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Self, final

from palestra.training.batch import Lane
from palestra.training.errors import BatchFailed, Cause
from palestra.training.groups import Group
from palestra.training.outcomes import Outcome, Summary
from palestra.training.pool import Pool
from palestra.training.requests import Key
from palestra.training.rows import check_group_sizes, keys_among
from palestra.training.settings import ClientSettings


@final
class Handle:
    """One submission. Take its outcomes in only one way: iterate, `groups`, or `gather`.

    Each way raises `IncompleteRollouts` when a rollout fails whose policy is `raise`, and under
    every policy when fewer than `min_fraction` can come back. A dead or stuck server raises it too,
    unless `on_incomplete` names that outage. `InvalidLogprobs` and `TokenDiscontinuity` are raised
    when their policy is `raise`. The error's `outcomes` are the outcomes that ended but were not
    handed out.
    """

    def __init__(
        self,
        pool: Pool,
        lane: Lane,
        run: str,
        settings: ClientSettings,
        *,
        on_close: Callable[[str], None],
    ) -> None:
        self._pool = pool
        self._lane = lane
        self._run = run
        self._settings = settings
        self._on_close = on_close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        del raised
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Outcome]:
        """Yield every outcome, in the order in which they end."""
        while (outcome := await self.next()) is not None:
            yield outcome

    async def next(self) -> Outcome | None:
        """Return the next outcome; None after the last."""
        lane, batch = self._lane, self._lane.batch
        while True:
            if batch.error is not None:
                await self._quiet()
                self._finish()
                self._attach(batch.error)
                raise batch.error
            outcome = self._pool.next_outcome(lane)
            if outcome is not None:
                return outcome
            if not batch.pending:
                await self._quiet()
                self._finish()
                if (failure := self._pool.at_its_end(lane)) is not None:
                    raise failure
                return None
            lane.changed.clear()
            await lane.changed.wait()

    def _attach(self, error: BatchFailed, taken_outcomes: Iterable[Outcome] = ()) -> None:
        """Add to an error the waiting outcomes, and the `taken_outcomes` that were not handed out."""
        batch = self._lane.batch
        by_key = {
            outcome.key: outcome
            for outcome in (*taken_outcomes, *error.outcomes, *batch.leftover())
        }
        error.outcomes = tuple(by_key[key] for key in batch.jobs if key in by_key)

    async def groups(self, size: int) -> AsyncIterator[Group]:
        """Yield each group as soon as all of its `size` members have ended.

        Raises InputDataError at once when a group of the submission does not have `size` members.
        """
        batch = self._lane.batch
        check_group_sizes({group: len(keys) for group, keys in batch.members.items()}, size)
        groups: dict[int | str, dict[Key, Outcome]] = {}
        handed_out = 0
        try:
            while (outcome := await self.next()) is not None:
                members = groups.setdefault(outcome.group_id, {})
                members[outcome.key] = outcome
                if len(members) < size:
                    continue
                group = self._pool.group(self._lane, outcome.group_id, members)
                if batch.error is not None:
                    continue  # and the next one raises it, with these members on it
                del groups[outcome.group_id]
                if group is not None:
                    handed_out += 1
                    yield group
        except BatchFailed as error:
            self._attach(error, itertools.chain.from_iterable(m.values() for m in groups.values()))
            raise
        if not handed_out and batch.wanted:
            raise batch.incomplete(
                Cause(sentence="no group of rollouts was completed with enough members")
            )

    async def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""
        batch = self._lane.batch
        by_key: dict[Key, Outcome] = {}
        try:
            while (outcome := await self.next()) is not None:
                by_key[outcome.key] = outcome
        except asyncio.CancelledError:
            # What was taken is lost with it, so nobody can want the rest.
            self.cancel()
            raise
        except BatchFailed as error:
            self._attach(error, by_key.values())
            raise
        if len(by_key) < len(batch.jobs):
            raise RuntimeError(
                f"{len(batch.jobs) - len(by_key)} outcomes of this submission were already "
                "returned: use only one of iteration, groups and gather"
            )
        outcomes = self._pool.all_of(self._lane, by_key)
        missing = batch.incomplete() if batch.came_to_nothing else batch.error
        if missing is not None:
            self._attach(missing, outcomes)
            raise missing
        return outcomes

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Cancel the rollouts with these keys, or all by default. They end as `Failed`, cancelled.

        Rollouts that have already ended do not change. Raises InputDataError: a key was not
        requested.
        """
        batch = self._lane.batch
        chosen = batch.unfinished(keys_among(keys, batch.jobs))
        batch.cancelled(len(chosen))
        self._pool.cancel(self._lane, chosen, "the trainer cancelled it")
        self._pool.pump()

    def stop(self, reason: str) -> None:
        """End the submission with `IncompleteRollouts`, whose cause is `reason`, unless all rollouts
        have ended. The error has the outcomes that nobody has taken.
        """
        batch = self._lane.batch
        if batch.pending:
            self._pool.fail(self._lane, batch.incomplete(Cause(sentence=reason)))
            self._pool.pump()

    def summary(self) -> Summary:
        """Return the counts of the submission so far."""
        return self._lane.batch.summary()

    async def aclose(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        self.cancel()
        await self._quiet()
        self._finish()

    def _finish(self) -> None:
        self._pool.forget(self._run)
        self._on_close(self._run)

    async def _quiet(self) -> None:
        """Wait until no rollout of the submission runs. A rollout that ignores its cancellation is
        abandoned.
        """
        lane = self._lane
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * self._settings.stuck_after_s):
                while lane.running:
                    lane.changed.clear()
                    await lane.changed.wait()
