"""An author's code that holds the event loop of a test: interrupted where it stands.

A signal's handler runs in the main thread between two instructions of Python, and inside regular
expressions. `SIGPROF` comes with the CPU time that a loop spends, whoever holds the interpreter's
lock, and from the guard's thread when the code sleeps.
"""

import contextlib
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from palestra.conformance import LoopGuard
from palestra.serving.authors_errors import AuthorsPlace
from palestra.serving.code_files import is_servers_file

EVERY_CPU_S: Final = 0.5


class HoldsLoop(BaseException):
    """Raised in code that holds the event loop for too long. No `except Exception` swallows it."""

    def place(self) -> AuthorsPlace:
        """The innermost frame of an author's file; without one, the innermost at all."""
        frames = [
            AuthorsPlace(frame.name, frame.filename, frame.lineno or 0)
            for frame in reversed(traceback.extract_tb(self.__traceback__))
            if frame.filename != __file__
        ]
        theirs = (frame for frame in frames if is_servers_file(frame.file))
        return next(theirs, frames[0] if frames else AuthorsPlace())


@contextlib.contextmanager
def interrupting(guard: LoopGuard, *, limit_s: float) -> Iterator[None]:
    """Raise `HoldsLoop` in what holds the loop for `limit_s`, while the body runs.

    Nothing is raised outside the main thread, and where a profiler uses the same signal.
    """
    if not _is_free():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if guard.still_s() >= limit_s:
            raise HoldsLoop

    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, EVERY_CPU_S, EVERY_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)


def waker() -> Callable[[float], None]:
    """What the guard calls from its thread: code that sleeps spends no CPU time."""
    if not _is_free():
        return lambda _still_s: None
    thread = threading.get_ident()

    def wake(_still_s: float) -> None:
        if signal.getsignal(signal.SIGPROF) != signal.SIG_DFL:
            signal.pthread_kill(thread, signal.SIGPROF)

    return wake


def _is_free() -> bool:
    """Whether the signal is nobody's, and its handler would run in this thread."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
    )
