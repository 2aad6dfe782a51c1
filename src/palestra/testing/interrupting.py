"""An author's code that holds the event loop of a test: interrupted where it stands.

A signal's handler runs in the main thread between two instructions of Python, and inside regular
expressions. `SIGPROF` comes with the CPU time that a loop spends, whoever holds the interpreter's
lock, and from the guard's thread when the code sleeps.
"""

import contextlib
import signal
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Final, final

from palestra.conformance import LoopGuard
from palestra.server import AuthorsPlace, is_servers_file

EVERY_CPU_S: Final = 0.5
_LEAVING: Final = frozenset({__file__, contextlib.__file__})
"""The files whose code runs when the body is left."""


class LoopBlocked(BaseException):
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


@final
class Interruption:
    """Raises `LoopBlocked` in what holds the loop for `limit_s`.

    It does nothing outside the main thread, and where a profiler uses the same signal.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._is_watching = False
        """Outside the body, the signal would end the process."""

    def wake(self, _still_s: float) -> None:
        """Send the signal from the guard's thread: code that sleeps spends no CPU time."""
        with self._lock:
            if self._is_watching:
                signal.pthread_kill(self._thread, signal.SIGPROF)

    @contextlib.contextmanager
    def watching(self, guard: LoopGuard) -> Iterator[None]:
        """Interrupt the body."""
        if not _is_unused():
            yield
            return

        def interrupt(_number: int, frame: FrameType | None) -> None:
            # Not while the body is being left: the handler and the timer would stay.
            is_leaving = frame is not None and frame.f_code.co_filename in _LEAVING
            if self._is_watching and not is_leaving and guard.still_s() >= self._limit_s:
                raise LoopBlocked

        signal.signal(signal.SIGPROF, interrupt)
        self._is_watching = True
        signal.setitimer(signal.ITIMER_PROF, EVERY_CPU_S, EVERY_CPU_S)
        try:
            yield
        finally:
            with self._lock:
                self._is_watching = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            # Ignored first: that drops a signal which is still on its way.
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _is_unused() -> bool:
    """Whether the signal is nobody's, and its handler would run in this thread."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
    )
