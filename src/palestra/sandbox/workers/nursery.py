"""The nursery process: it imports modules once, forks workers, and kills workers whose line is
closed.

It has one thread and no event loop, so that forking is safe. It receives its commands on sockets:

- *control*: each message brings two sockets and means "fork a worker". The first socket is for the
  worker's calls, the second is its line. When control closes, the nursery and all workers end.
- *line*, one per worker: a byte from the caller means "show your stack" (`STACK_SIGNAL`). When the
  caller closes the line, the nursery kills the worker. When the worker has ended, the nursery
  writes how (`os.waitstatus_to_exitcode`) and closes the line; also when a fork has failed.

A worker leads a process group, so that the processes it has started are killed with it.
"""

import faulthandler
import gc
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, final

import msgspec

from palestra.errors import PalestraError, refusal_line
from palestra.sandbox.workers.worker import (
    STACK_SIGNAL,
    Endurance,
    Serve,
    function_named,
)
from palestra.system import die_with_parent, outlive_parent

EXIT_CODE: Final = struct.Struct(">i")
FIRST_ERRNO: Final = 1_000
"""Added to the error number of a failed fork, so that it differs from every exit code."""


class NurseryOrder(msgspec.Struct, frozen=True):
    """The instructions for a nursery at its start, read as JSON from its standard input."""

    control: int
    """The file descriptor of the control socket."""
    preload: list[str]
    """Modules to import, or `module:function` to call, before the first fork."""
    path: list[str]
    """The `sys.path` of the process that started the nursery."""
    memory_mib: int
    calls: int
    growth_mib: int
    program: str
    """A function as `module:function`. The nursery calls it once with `argument`, before the first
    fork. The function that it returns serves a worker's socket."""
    start_limit_s: float
    """The seconds that the imports may take. After that the nursery prints its stack and ends."""
    argument: Any = None
    outputs: tuple[int, int] | None = None
    """File descriptors for the output of workers. None drops their output."""


def main(order_json: bytes) -> None:
    """Run a nursery with the given order."""
    order = msgspec.json.decode(order_json, type=NurseryOrder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _point_at_null(0, os.O_RDONLY)
    sys.path[:] = order.path
    try:
        serve = _import(order)
    except PalestraError as error:
        sys.exit(refusal_line(error))
    if order.outputs is None:
        # Parsers and libraries print what they think of a model's answer; nobody asked.
        _point_at_null(1, os.O_WRONLY)
        _point_at_null(2, os.O_WRONLY)
    else:
        for number, output in enumerate(order.outputs, start=1):
            os.dup2(output, number)
            os.close(output)
    # Garbage collections would write to pages that all workers share.
    gc.collect()
    gc.freeze()
    endurance = Endurance(order.memory_mib, order.calls, order.growth_mib)
    Nursery(socket.socket(fileno=order.control), serve, endurance).run()


def _import(order: NurseryOrder) -> Serve:
    """Import what the workers need, within a time limit: an author's file may hold the
    interpreter's lock forever.
    """
    die_with_parent()
    faulthandler.dump_traceback_later(order.start_limit_s, exit=True)
    for name in order.preload:
        _preload(name)
    serve: Serve = function_named(order.program)(order.argument)
    faulthandler.cancel_dump_traceback_later()
    outlive_parent()
    return serve


def _preload(name: str) -> None:
    module, _, function = name.partition(":")
    if function:
        function_named(name)()
    else:
        __import__(module)


def _point_at_null(descriptor: int, mode: int) -> None:
    null = os.open(os.devnull, mode)
    os.dup2(null, descriptor)
    os.close(null)


@final
class Nursery:
    """Forks workers, watches them, and reports how they ended."""

    def __init__(self, control: socket.socket, serve: Serve, endurance: Endurance) -> None:
        self._control = control
        self._serve = serve
        self._endurance = endurance
        self._lines: dict[int, socket.socket] = {}  # by process
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve requests until control closes, then kill every worker."""
        wakeup, woken = socket.socketpair()
        for end in (wakeup, woken):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ, "control")
        self._selector.register(wakeup, selectors.EVENT_READ, "ended")
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.data == "ended":
                        wakeup.recv(4096)
                        self._bury()
                    elif key.data == "control":
                        if not self._fork_one():
                            return
                    else:
                        self._attend(key.data)
        finally:
            for pid in self._lines:
                _kill(pid)
            for pid in self._lines:  # nobody finds them when this process has ended
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _fork_one(self) -> bool:
        """Fork the worker that a message on control requests. False when control is closed."""
        message, fds, _, _ = socket.recv_fds(self._control, 1, 2)
        if not message:
            return False
        calls, line = (socket.socket(fileno=fd) for fd in fds)
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or no memory for one more
            line.send(EXIT_CODE.pack(FIRST_ERRNO + (error.errno or 0)))
            calls.close()
            line.close()
            return True
        if pid == 0:
            self._become_worker(calls, [line, self._control, *self._lines.values()])
        calls.close()
        self._lines[pid] = line
        self._selector.register(line, selectors.EVENT_READ, pid)
        return True

    def _become_worker(self, calls: socket.socket, others: Sequence[socket.socket]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            die_with_parent()
            self._selector.close()
            # A copy of another's line that stays open here would keep that worker alive.
            for sock in others:
                sock.close()
            self._serve(calls, self._endurance)
            code = 0
        except BrokenPipeError:
            pass  # who asked for this worker has ended meanwhile
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _attend(self, pid: int) -> None:
        """React to a worker's line: show its stack, or kill it. Do nothing if the worker has ended
        already.
        """
        line = self._lines.get(pid)
        if line is None:
            return
        try:
            request = line.recv(64)
        except ConnectionResetError:
            request = b""
        if request:
            with suppress(ProcessLookupError):
                os.kill(pid, STACK_SIGNAL)
            return
        self._selector.unregister(line)
        _kill(pid)

    def _bury(self) -> None:
        while self._lines:
            if sys.platform == "linux":
                # It stays a zombie for a moment, so that its number still means its own group.
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if child is not None:
                    _kill(child.si_pid)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            line = self._lines.pop(pid)
            with suppress(KeyError):  # it was killed
                self._selector.unregister(line)
            with suppress(OSError):  # its caller has gone
                line.send(EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))
            line.close()


def _kill(pid: int) -> None:
    """Kill a worker and the processes it has started that are still in its group."""
    for kill in (os.killpg, os.kill):  # it may not lead its group yet
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
