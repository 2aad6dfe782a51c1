"""The nursery process: imports once, forks workers, kills them when nobody holds their line.

One thread, no event loop, so that forking is safe. It is told everything by sockets:

- *control*: each message brings two sockets and means "fork a worker": the first is for its
  calls, the second is its line. The end of control is the end of everything.
- *line*, one per worker: closed by the caller, it means "kill"; when the worker has ended, the
  nursery writes how (`os.waitstatus_to_exitcode`) and closes it; also when it could not fork one.
"""

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
from typing import Final, NoReturn, final

import msgspec

from palestra.sandbox.workers.worker import Endurance, function_named, serve
from palestra.system import die_with_parent

EXIT_CODE: Final = struct.Struct(">i")
FIRST_ERRNO: Final = 1_000
"""Added to the error number of a fork that failed: beyond every exit code."""


class Order(msgspec.Struct, frozen=True):
    """What a nursery is told at its start, as JSON in its first argument."""

    control: int
    """The file descriptor of the control socket."""
    preload: list[str]
    """Modules to import, or `module:function` to call, before the first fork."""
    path: list[str]
    """`sys.path` of the process that started it."""
    memory_mib: int
    calls: int
    growth_mib: int


def main() -> None:
    """Serve the order in the first argument."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = order.path
    for name in order.preload:
        _preload(name)
    _be_quiet()
    # Garbage collections would write to pages that all workers share.
    gc.collect()
    gc.freeze()
    endurance = Endurance(order.memory_mib, order.calls, order.growth_mib)
    Nursery(socket.socket(fileno=order.control), endurance).run()


def _preload(name: str) -> None:
    module, _, function = name.partition(":")
    if function:
        function_named(name)()
    else:
        __import__(module)


def _be_quiet() -> None:
    """Parsers and libraries print what they think of a model's answer; nobody asked."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


@final
class Nursery:
    """Forks, watches and buries workers."""

    def __init__(self, control: socket.socket, endurance: Endurance) -> None:
        self._control = control
        self._endurance = endurance
        self._lines: dict[int, socket.socket] = {}  # by process
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Until control ends; then every worker is killed."""
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
                        self._let_go(key.data)
        finally:
            for pid in self._lines:
                _kill(pid)

    def _fork_one(self) -> bool:
        """Fork the worker that control asks for; False at its end."""
        said, fds, _, _ = socket.recv_fds(self._control, 1, 2)
        if not said:
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
            die_with_parent()
            self._selector.close()
            # A copy of another's line that stays open here would keep that worker alive.
            for sock in others:
                sock.close()
            serve(calls, self._endurance)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _let_go(self, pid: int) -> None:
        """Kill a worker whose line nobody holds any more, unless it was buried a moment ago."""
        line = self._lines.get(pid)
        if line is not None:
            self._selector.unregister(line)
            _kill(pid)

    def _bury(self) -> None:
        while self._lines:
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
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
