"""Run a command's coroutine: the first Ctrl-C or SIGTERM stops it in order, the second at once.

A SIGTERM within `SAME_S` of the first one counts as the first one: a batch system signals every
process of a job, and our parent process passes the signal on once more.

An orderly stop takes at most `STOP_S`. After this time the process ends, even when the coroutine
swallows its cancellation, waits for a thread, or blocks the event loop.
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Final, TypeVar, final

from palestra.cli.console import STOPPED, leave_now, notice
from palestra.errors import RunFailed
from palestra.fleet import dumping_tasks, rare_collections, unfinished_work
from palestra.server import error_text, own_frames
from palestra.system import StopAllowance, beating, exit_in_order, stop_allowance

T = TypeVar("T")

STOP_S: Final = {signal.SIGINT: 2.0, signal.SIGTERM: 3.5}
"""The longest orderly stop, in seconds. With the last words it stays below the limit of the guard.
"""
SAME_S: Final = {signal.SIGINT: 0.3, signal.SIGTERM: 1.0}
"""A second signal within this time, in seconds, counts as the first one: the guard passes on a
signal that was already sent to every process of the group."""
TIDY_S: Final = 0.5
"""How long, in seconds, to wait for leftover tasks to end."""


class CommandStopped(Exception):
    """Raised when a signal, from the user or the system, stops the command."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """The usual exit code of a process that a signal ended: 128 + the signal's number."""
        return 128 + self.signal


LastWords = Callable[[CommandStopped], object]
"""Prints how to continue. It may be called on another thread, when the event loop is blocked."""


def run_to_end(main: Coroutine[Any, Any, T], *, last_words: LastWords | None = None) -> T:
    """Run `main` on a fast event loop, in a process that does nothing else.

    Raises CommandStopped: a signal stopped it. Raises RunFailed: some task raised SystemExit. A stop
    that takes too long ends the process here, after a call of `last_words`.
    """
    import uvloop

    loop = uvloop.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="aside"))
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_stoppable(main, last_words))
    except SystemExit as error:
        # From a task that an author's code made itself: it ends the loop, whoever waits for it.
        raise RunFailed(
            f"a task of a server's code raised {error_text(error)}\n{own_frames(error, limit=1)}",
            hint="raise another exception there: SystemExit in a task ends the whole process",
        ) from error
    finally:
        _tidy(loop)
        asyncio.set_event_loop(None)
        # Without waiting for its threads, which may be an author's that never end.
        loop.close()


def serve_until_stopped(main: Coroutine[Any, Any, object]) -> int:
    """Run a command that serves, and return its exit code. Ctrl-C is its normal end: 0."""
    try:
        run_to_end(main)
    except CommandStopped as stopped:
        notice(STOPPED)
        return 0 if stopped.signal is signal.SIGINT else stopped.exit_code
    return 0


async def _stoppable(main: Coroutine[Any, Any, T], last_words: LastWords | None) -> T:
    with stop_allowance() as allowance:
        task = asyncio.ensure_future(main)
    stop = _Stop(asyncio.get_running_loop(), task, allowance, last_words)
    with _handling((signal.SIGINT, signal.SIGTERM), stop), dumping_tasks():
        try:
            async with rare_collections(), beating():
                return await task
        except asyncio.CancelledError:
            if stop.received is not None:
                stop.orderly = True
                raise CommandStopped(stop.received) from None
            raise


@final
class _Stop:
    """The handler of SIGINT and SIGTERM. It is not a handler of the event loop, which may be
    blocked.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        task: "asyncio.Future[Any]",
        allowance: StopAllowance,
        last_words: LastWords | None,
    ) -> None:
        self._loop = loop
        self._task = task
        self._allowance = allowance
        self._last_words = last_words
        self.received: signal.Signals | None = None
        self._received_at = 0.0
        self._within_s = 0.0
        self.orderly = False
        """The coroutine has ended: who called it says the last words."""

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.received is not None:
            if self.received == number and now - self._received_at < SAME_S[self.received]:
                return
            exit_in_order(128 + number)
        self.received, self._received_at = signal.Signals(number), now
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._within_s = STOP_S[self.received] + self._allowance.longer_s
        limit = threading.Timer(self._within_s, self._end)
        limit.daemon = True
        limit.start()

    def _end(self) -> None:
        """End the process, because the orderly stop has taken too long."""
        if self.received is None:
            return
        stopped = CommandStopped(self.received)
        if self.orderly:
            leave_now(stopped.exit_code)
        saying = threading.Thread(target=self._print_stop, args=(stopped,), daemon=True)
        saying.start()
        saying.join(TIDY_S)
        # A live view prints on a thread of its own, a moment later.
        threading.Event().wait(0.2)
        leave_now(stopped.exit_code)

    def _print_stop(self, stopped: CommandStopped) -> None:
        work = ", ".join(unfinished_work(self._loop))
        notice(
            f"{stopped.signal.name}: some tasks did not stop within {self._within_s:g} s ({work}); "
            "the command ends without them"
        )
        if self._last_words is not None:
            self._last_words(stopped)


@contextlib.contextmanager
def _handling(numbers: tuple[signal.Signals, ...], handler: _Stop) -> Iterator[None]:
    """Install `handler` for the signals `numbers` while the body runs.

    After the body, a repeated SIGTERM is ignored: the command still has to print its last words,
    and the same signal may arrive twice. The process ends within `STOP_S` of the first signal
    anyway.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            is_repeated = number == handler.received == signal.SIGTERM
            signal.signal(number, signal.SIG_IGN if is_repeated else previous)


def _tidy(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks that are left on the loop, and wait for them no longer than `TIDY_S`."""
    unfinished = asyncio.all_tasks(loop)
    for task in unfinished:
        task.cancel()
    if unfinished:
        _, unfinished = loop.run_until_complete(asyncio.wait(unfinished, timeout=TIDY_S))
    if unfinished:
        # Kept until the process ends: taken apart now, they would fill the screen with errors.
        # `guarded` leaves a thread behind that does not end, and these with it.
        threading.Thread(target=_keep, args=(unfinished,), name="left behind").start()
    with contextlib.suppress(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), TIDY_S))


def _keep(_tasks: object) -> None:
    threading.Event().wait()
