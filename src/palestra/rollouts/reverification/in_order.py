"""Process rows concurrently, and write the results in row order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from palestra.engine import Engine, Job
from palestra.schema import RolloutKey

WINDOW = 4
"""The maximum number of finished rows that wait to be written, as a multiple of the concurrency."""

Row = TypeVar("Row")
Done = TypeVar("Done")


@dataclass(slots=True, kw_only=True)
class RowJob(Job, Generic[Row]):
    """The job of one row. `key.task`: the row's number among the rows of this session."""

    source: Row


class InOrder(Generic[Row, Done]):
    """Processes rows concurrently and writes the results in row order. It is the engine's `Work`.

    At most `concurrency` rows run at once. At most `WINDOW` times as many finished rows wait to be
    written, so a slow row does not let memory grow. After an early end, the file contains the first
    rows without gaps.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        work: Callable[[RowJob[Row]], Awaitable[Done]],
        write: Callable[[Row, Done], None],
        *,
        concurrency: int,
    ) -> None:
        self._rows = enumerate(rows)
        self._work = work
        self._write = write
        self._concurrency = concurrency
        self._unwritten: dict[int, tuple[Row, Done]] = {}
        self._written = 0
        self._engine: Engine[RowJob[Row], Done] = Engine(self)

    async def run(self) -> None:
        """Process all rows. Raises the first error that is not the failure of a row, in bounded
        time.
        """
        await self._engine.run()

    def take(self, running: int, /) -> RowJob[Row] | None:
        """Return the job of the next row; None when enough rows run or wait to be written, or no
        row is left.
        """
        window = self._concurrency * WINDOW
        if running >= min(self._concurrency, window - len(self._unwritten)):
            return None
        for number, row in self._rows:
            return RowJob(key=RolloutKey(number, 0), source=row)
        return None

    async def attempt(self, job: RowJob[Row], /) -> Done:
        """Process one row."""
        result = await self._work(job)
        # A verifier that never waits would keep signals and timers waiting.
        await asyncio.sleep(0)
        return result

    def settle(self, job: RowJob[Row], result: Done, /) -> None:
        """Store a result, then write all results that are next in row order."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return  # it was swallowed: this may be its effect, and the file may be closed
        self._unwritten[job.key.task] = job.source, result
        while self._written in self._unwritten:
            self._write(*self._unwritten.pop(self._written))
            self._written += 1
        self._engine.fill()

    def abandoned(self, job: RowJob[Row], /) -> Done:
        """Never called, because this engine abandons no jobs: the command's guard process ends a
        verification that does not stop.
        """
        raise NotImplementedError(job.key)
