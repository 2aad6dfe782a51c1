"""A group of tasks that end together, in bounded time even when one ignores its cancellation."""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, final

from palestra.errors import RunFailed

logger = logging.getLogger("palestra.engine")

CANCEL_GRACE_S: Final = 2.0


@final
class BoundedTasks:
    """A group like `asyncio.TaskGroup`, with two differences.

    The first error of a task is raised without an exception group. And cancelled tasks, after an
    error or a cancellation from outside, have `grace_s` seconds to end. A task that ignores the
    cancellation is left behind with a warning. A long-running body should check `broken`. `leave`
    gives up a single task that does not stop at its own deadline.
    """

    def __init__(self, *, grace_s: float = CANCEL_GRACE_S) -> None:
        self._grace_s = grace_s
        self._running: set[asyncio.Task[None]] = set()
        self._left: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._changed = asyncio.Event()
        self.closing = False
        """Whether the tasks are being cancelled, or have ended."""

    @property
    def broken(self) -> bool:
        """Whether a task has failed."""
        return self._error is not None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task of this task group; do nothing when it is already cancelled."""
        if self.closing:
            work.close()
            return
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._task_ended)

    def leave(self, task: asyncio.Task[None]) -> None:
        """Stop waiting for `task`, which does not end. Its later exception is lost."""
        self._running.discard(task)
        task.remove_done_callback(self._task_ended)
        # The loop itself does not keep tasks alive, and errors nobody asked for are printed.
        self._left.add(task)
        task.add_done_callback(self._forget)
        self._changed.set()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if (error := self._error_of(task)) is not None:
            self._error = self._error or error
        if not self._running or self._error is not None:
            self._changed.set()

    def _error_of(self, task: asyncio.Task[None]) -> BaseException | None:
        if not task.cancelled():
            return task.exception()
        if self.closing:
            return None
        return RunFailed(
            "the code of a rollout cancelled the task that runs it",
            hint="look for asyncio.current_task().cancel() in agents, tools and verifiers",
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, trace
        try:
            if error is None:
                await self._all()
        finally:
            # Whatever ended the waiting: none of these tasks goes on alone.
            await self.cancel()
        if self._error is not None and error is None:
            raise self._error

    async def _all(self) -> None:
        """Wait until every task has ended or one has failed."""
        while self._running and self._error is None:
            self._changed.clear()
            await self._changed.wait()

    async def cancel(self) -> None:
        """Cancel all tasks. Wait until they end, at most the grace period."""
        self.closing = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=self._grace_s)
        if self._running:
            logger.warning(
                "%d rollouts did not end within %.0f s after they were cancelled; the run does "
                "not wait for them",
                len(self._running),
                self._grace_s,
            )
