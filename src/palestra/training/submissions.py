"""The submissions of one client: names them, queues their rollouts, and closes those that are open."""

import itertools
import time
from collections.abc import Iterable
from functools import partial
from typing import Final, final

from palestra.training.checks import SECONDS, require
from palestra.training.handle import Handle
from palestra.training.policies import PolicyWords
from palestra.training.pool import Pool
from palestra.training.requests import RolloutRequest
from palestra.training.rows import RowIntake, jobs_of
from palestra.training.settings import ClientSettings
from palestra.transport import new_id

RUN_DIGITS: Final = 12


@final
class Submissions:
    """The submissions of one client. `run`: the id of the client, which its rollouts carry."""

    def __init__(self, settings: ClientSettings) -> None:
        self.run = new_id()[:RUN_DIGITS]
        self._settings = settings
        self._batches = itertools.count(1)
        self._numbers = itertools.count()
        self._handles: dict[str, Handle] = {}
        self._closed = False

    def submit(
        self,
        pool: Pool,
        reader: RowIntake,
        requests: Iterable[RolloutRequest],
        *,
        deadline_s: float | None,
        on_incomplete: PolicyWords | None,
        min_fraction: float | None,
    ) -> Handle:
        """Queue rollouts in `pool`, and return their handle.

        Raises InputDataError: a row cannot be run, or a request occurs twice. Raises ConfigError: a
        policy is invalid.
        """
        if self._closed:
            raise RuntimeError(
                "the client is closed (its `async with` block ended), so it cannot start rollouts"
            )
        require("deadline_s", deadline_s, SECONDS.or_none())
        settings = self._settings.for_batch(on_incomplete, min_fraction)
        run = f"{self.run}.{next(self._batches)}"
        jobs = jobs_of(
            requests,
            reader,
            run=run,
            numbers=partial(next, self._numbers),
            now=time.monotonic(),
            deadline_s=settings.batch_timeout_s if deadline_s is None else deadline_s,
        )
        lane = pool.add(run, jobs, settings)
        handle = self._handles[run] = Handle(pool, lane, run, settings, on_close=self._forget)
        return handle

    async def aclose(self) -> None:
        """Cancel all rollouts that have not ended, and wait for their end. Accept no other ones."""
        self._closed = True
        handles = list(self._handles.values())
        # All at once, so that what will not be stopped is waited for once.
        for handle in handles:
            handle.cancel()
        for handle in handles:
            await handle.aclose()

    def _forget(self, run: str) -> None:
        self._handles.pop(run, None)
