"""The launcher: it forks a keeper for every control socket that it receives, until our process
ends.

If a keeper is killed, the launcher inherits the keeper's processes and kills them.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from types import FrameType
from typing import NoReturn

from palestra.sandbox.keeping import folder, tree
from palestra.sandbox.keeping.keep import PR_SET_CHILD_SUBREAPER, keep


class Launcher:
    """Forks keepers, and records which of its child processes are keepers."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._keepers: set[int] = set()
        self._directories = f"{tempfile.gettempdir()}/palestra-sandbox-{os.urandom(8).hex()}"

    def serve(self) -> None:
        """Fork keepers until the request socket closes."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake_reader, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # Only a word that some child has ended: what follows is done between requests, never
        # in the middle of a fork.
        signal.signal(signal.SIGCHLD, _no_more_than_a_word)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        poll = select.poll()  # takes numbers of files that are too high for select()
        poll.register(self._requests, select.POLLIN)
        poll.register(wake_reader, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if wake_reader in ready:
                os.read(wake_reader, 4096)
                self._look_after_children()
            if self._requests.fileno() not in ready:
                continue
            data, fds, _, _ = socket.recv_fds(self._requests, 1, 4, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            self._fork(fds)
            for received in fds:
                os.close(received)

    def _fork(self, fds: list[int]) -> None:
        """Fork a keeper for a control socket. In a conversation, `fds` also holds the socket of the
        program's side.

        If no process can be created, the sockets are closed, which shows the caller the failure.
        """
        try:
            child = os.fork()
        except OSError:
            return
        if child == 0:
            self._become_keeper(fds)
        self._keepers.add(child)

    def _become_keeper(self, fds: list[int]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._requests.close()
            with socket.socket(fileno=fds[0]) as control:
                keep(control, fds[1] if len(fds) > 1 else None, self._directory_of(os.getpid()))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _look_after_children(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid in self._keepers:
                    self._keepers.discard(pid)
                    folder.remove(self._directory_of(pid))  # should it have been killed
        for child in tree.children(os.getpid()):
            if child not in self._keepers:
                # What it has started comes to us in turn.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)

    def _directory_of(self, keeper: int) -> str:
        """Return the path of the folder that a keeper creates for a program without isolation."""
        return f"{self._directories}-{keeper}"


def _no_more_than_a_word(_number: int, _frame: FrameType | None) -> None:
    pass


def main(fd: int) -> None:
    """Serve the socket at `fd` in a child process. The parent process exits at once. The launcher
    ends when the socket closes.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    Launcher(socket.socket(fileno=fd)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
