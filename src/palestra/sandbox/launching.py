"""Our side of the launcher: it starts on first use, and receives a control socket for each run."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from palestra.errors import InfraError, KnownCause
from palestra.system import start

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
"""A program that makes the keeping modules importable without the imports of their parent packages.
"""


@final
class KeeperLauncher:
    """A process that forks keepers for us. It ends when our process ends, for whatever reason.

    It is not our child process: otherwise it would be reported as still running when it only waits
    for us.
    """

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._release: weakref.finalize[..., KeeperLauncher] | None = None
        self._closed = False
        self._turn = threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def hand_over(self, control: socket.socket, *further_sockets: socket.socket) -> None:
        """Start a keeper that serves `control`. Raises `InfraError`."""
        # On a thread, as a launcher that has to be started first takes its time; and with copies,
        # as a thread goes on when we are cancelled and the caller closes its own.
        copies = [sock.dup() for sock in (control, *further_sockets)]
        await asyncio.shield(asyncio.to_thread(self._hand_over, copies))

    def close(self) -> None:
        """End the launcher for good. Keepers end when their own control sockets close.

        Does not block: a launcher that is just starting ends after its start.
        """
        self._closed = True
        self._drop_when_closed()

    def _hand_over(self, copies: Sequence[socket.socket]) -> None:
        try:
            with self._turn:
                self._send([copy.fileno() for copy in copies])
        finally:
            for copy in copies:
                copy.close()
            self._drop_when_closed()

    def _send(self, fds: list[int]) -> None:
        for attempt in (1, 2):
            if self._closed:
                raise InfraError("the sandbox was closed")
            requests = self._requests or self._start()
            try:
                socket.send_fds(requests, [b"k"], fds)
            except OSError as error:
                # somebody ended it
                self._drop()
                if attempt == 2:
                    raise InfraError(
                        f"the sandbox launcher is gone: {error}", cause=KnownCause.NO_SANDBOX
                    ) from error
            else:
                return

    def _drop_when_closed(self) -> None:
        # Who holds the lock comes here after letting go of it.
        if self._closed and self._turn.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._turn.release()

    def _drop(self) -> None:
        if self._release is not None:
            self._release()
        self._requests = self._release = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = str(Path(__file__).parents[2])
        fd = theirs.fileno()
        try:
            process = start(
                # our own number is for those who look at the list of processes
                [sys.executable, "-I", "-S", "-B", "-c", _BOOT, str(fd), source, str(os.getpid())],
                stdout=subprocess.DEVNULL,
                pass_fds=[fd],
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "TMPDIR": tempfile.gettempdir(),
                },
                cwd=Path("/"),
            )
            with process:
                try:
                    code = process.wait(START_WITHIN_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
        except (OSError, subprocess.SubprocessError) as error:
            ours.close()
            raise InfraError(
                f"the sandbox launcher does not start: {error}", cause=KnownCause.NO_SANDBOX
            ) from error
        finally:
            theirs.close()
        if code != 0:
            ours.close()
            raise InfraError(
                f"the sandbox launcher does not start: it exits {code}", cause=KnownCause.NO_SANDBOX
            )
        self._requests = ours
        # Whoever forgets to close it leaves nothing behind either.
        self._release = weakref.finalize(self, ours.close)
        return ours
