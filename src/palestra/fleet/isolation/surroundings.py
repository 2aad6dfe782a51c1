"""Restore a worker process for the next call, whatever an author's code has changed in it."""

import contextlib
import faulthandler
import io
import os
import signal
import socket
import sys
from typing import TextIO, final

from palestra.fleet.isolation.wire import message_frame
from palestra.sandbox import READY, STACK_SIGNAL, Endurance, limit_worker


@final
class Surroundings:
    """The state of one worker process (folder, output streams, timer). Create it after the fork."""

    def __init__(self, sock: socket.socket, endurance: Endurance) -> None:
        limit_worker(endurance.memory_mib)
        # In C, so that it works while other C code holds the interpreter's lock.
        faulthandler.register(STACK_SIGNAL, file=sock.fileno(), all_threads=False)
        faulthandler.enable(file=sock.fileno(), all_threads=False)
        self._pid = os.getpid()
        self._folder = os.open(".", os.O_RDONLY)
        self._outputs = [(number, os.dup(number)) for number in (1, 2)]
        self._streams = _open_streams()
        self._set_streams()

    def say_ready(self, sock: socket.socket) -> None:
        """Send the server the message that the worker is ready for calls."""
        sock.sendall(message_frame(READY, False, self._pid))

    def restore(self) -> None:
        """Restore the process's state after each call. A process that the author's code has forked
        ends here.
        """
        if os.getpid() != self._pid:
            os._exit(0)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError):  # each alone is worth trying
            os.fchdir(self._folder)
        for number, copy in self._outputs:
            with contextlib.suppress(OSError):
                os.dup2(copy, number)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if sys.stdout.closed or sys.stderr.closed:
            self._streams = _open_streams()
        self._set_streams()

    def _set_streams(self) -> None:
        sys.stdout, sys.stderr = self._streams


def _open_streams() -> tuple[TextIO, TextIO]:
    """Return new streams for standard output and standard error. They write without a buffer, so
    that a killed worker loses no output.
    """
    out, err = (
        io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False),
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        for number in (1, 2)
    )
    return out, err
