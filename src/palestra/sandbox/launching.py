"""Our end of the launcher: started on first use, handed a control socket for each run."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Final, final

from palestra.errors import InfraError

START_WITHIN_S: Final = 30.0

_BOOT: Final = """
import sys, types
for name in ("palestra", "palestra.sandbox"):
    package = types.ModuleType(name)
    package.__path__ = [sys.argv[2] + "/" + name.replace(".", "/")]
    sys.modules[name] = package
from palestra.sandbox.keeping.__main__ import main
main(int(sys.argv[1]))
"""
"""Makes the keeping modules importable without what the packages above them import."""


@final
class Launcher:
    """A process that forks keepers for us. It ends with us, however we end.

    It is not our child: it would be reported as running still when it is only waiting for us.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        self._release: weakref.finalize[..., Launcher] | None = None
        self._starting = threading.Lock()

    def hand_over(self, control: socket.socket, *more: socket.socket) -> None:
        """Have a keeper serve `control`. Blocks shortly; raises `InfraError`."""
        fds = [each.fileno() for each in (control, *more)]
        for attempt in (1, 2):
            with self._starting:
                fd = self._fd if self._fd is not None else self._start()
            try:
                with self._borrowed(fd) as requests:
                    socket.send_fds(requests, [b"k"], fds)
            except OSError as error:
                # somebody ended it
                self.close()
                if attempt == 2:
                    raise InfraError(f"the sandbox launcher is gone: {error}") from error
            else:
                return

    def close(self) -> None:
        """Let the launcher end; keepers end with their own control sockets."""
        with self._starting:
            if self._release is not None:
                self._release()
            self._fd = self._release = None

    def _start(self) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = str(Path(__file__).parents[2])
        fd = theirs.fileno()
        try:
            done = subprocess.run(  # noqa: S603 - our own module
                # our own number is for those who look at the list of processes
                [sys.executable, "-I", "-S", "-B", "-c", _BOOT, str(fd), source, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[fd],
                timeout=START_WITHIN_S,
                check=False,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "TMPDIR": tempfile.gettempdir(),
                },
                cwd="/",
            )
        except (OSError, subprocess.SubprocessError) as error:
            ours.close()
            raise InfraError(f"the sandbox launcher does not start: {error}") from error
        finally:
            theirs.close()
        if done.returncode != 0:
            ours.close()
            raise InfraError(f"the sandbox launcher does not start: it exits {done.returncode}")
        self._fd = ours.detach()
        self._release = weakref.finalize(self, os.close, self._fd)
        return self._fd

    @staticmethod
    @contextlib.contextmanager
    def _borrowed(fd: int):  # type: ignore[no-untyped-def]  # noqa: ANN205
        requests = socket.socket(fileno=os.dup(fd))
        try:
            yield requests
        finally:
            requests.close()
