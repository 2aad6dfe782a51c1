"""One server process: start it, watch it, and make sure that it ends with its parent.

The child reads its work order from standard input and keeps that pipe open. When the parent ends,
for whatever reason, the pipe closes and the child stops.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from palestra.errors import REFUSAL_MARK, PalestraError, ServerDied
from palestra.fleet.orders import refusal_of
from palestra.fleet.stacks import ProcessEnd, row_name
from palestra.system import how_ended, signal_name, start_async

LAST_LINES = 25
NOTHING_KNOWN: Final = ProcessEnd()
STOP_S: Final = 3.0
"""How long, in seconds, a child has to stop in order."""


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child process ended."""

    name: str
    returncode: int
    last_lines: tuple[str, ...]
    refusal: PalestraError | None = None
    """The error with which the process itself refused to run; None if it sent none."""
    pid: int | None = None

    @property
    def how(self) -> str:
        """How the process ended: `signal SIGKILL` or `exit code 3`."""
        return how_ended(self.returncode)

    @property
    def signal_name(self) -> str:
        """The name of the signal that ended the process, such as `SIGKILL`, or its number if it has
        no name. Empty when no signal ended the process.
        """
        return "" if self.returncode >= 0 else signal_name(-self.returncode)

    def as_error(
        self, *, before_ready: bool = False, process_end: ProcessEnd = NOTHING_KNOWN
    ) -> PalestraError:
        """Return the error that stops the fleet. `process_end`: which code the process executed."""
        if self.refusal is not None:
            return self.refusal
        failure = process_end.failure
        if failure is not None and failure.evidence.row is not None:
            row = row_name(failure.evidence.row)
            return ServerDied(
                f"server {self.name} was ended by a call of {row}: {failure.message}{self._output}",
                hint=failure.hint,
                server=self.name,
                failure=failure,
            )
        when = " before it was ready" if before_ready else ""
        hint = (
            "killed from outside: look for the kernel's out-of-memory message (dmesg)"
            if self.returncode == -signal.SIGKILL
            else "its last lines are above"
        )
        return ServerDied(
            f"server {self.name} ended with {self.how}{when}{process_end.circumstances}"
            f"{self._output or '; its last lines: (it printed nothing)'}",
            hint=process_end.hint or hint,
            server=self.name,
        )

    @property
    def _output(self) -> str:
        """The end of a message, with the last lines; empty when the process printed nothing."""
        lines = "".join(f"\n  | {line}" for line in self.last_lines)
        return lines and f"; its last lines:{lines}"


@final
class Child:
    """A child process, with the last lines that it printed."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.pid = process.pid
        self.started = time.time()
        self._process = process
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._reader: asyncio.Task[None] | None = None
        self._refusal: PalestraError | None = None
        self.stopping = False

    @classmethod
    async def spawn(
        cls,
        name: str,
        command: list[str],
        *,
        order: bytes,
        on_line: Callable[[str, str], object],
        redact: Callable[[str], str] = str,
        pass_fds: tuple[int, ...] = (),
        cwd: Path | None = None,
        log_path: Path | None = None,
    ) -> "Child":
        """Start `command`, write `order` to its standard input and leave that pipe open.

        All output of the process goes through `redact` before it is shown, logged or kept.
        """
        process = await start_async(
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=pass_fds,
            cwd=cwd,
            longest_line=2**20,
        )
        child = cls(name, process)
        child._reader = asyncio.create_task(
            child._read_lines(on_line, redact, log_path), name=f"log of {name}"
        )
        try:
            if process.stdin is not None:
                with contextlib.suppress(ConnectionError):
                    process.stdin.write(order + b"\n")
                    await process.stdin.drain()
        except BaseException:  # cancelled: nobody has this child yet who could stop it
            await child.stop(grace_s=0)
            raise
        return child

    async def _read_lines(
        self,
        on_line: Callable[[str, str], object],
        redact: Callable[[str], str],
        log_path: Path | None,
    ) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with log_path.open("a") if log_path is not None else contextlib.nullcontext() as log:
            while True:
                try:
                    raw = await stream.readline()
                except ValueError:  # a line beyond the limit: dropped, the rest still read
                    continue
                if not raw:
                    return
                line = redact(raw.decode("utf-8", "replace").rstrip())
                if line.startswith(REFUSAL_MARK):
                    self._refusal = refusal_of(self.name, line)
                    continue
                self._lines.append(line)
                # A closed terminal or a full disk must not stop the reading: the child would
                # block on its full pipe.
                with contextlib.suppress(OSError, ValueError):
                    on_line(self.name, line)
                    if log is not None:
                        log.write(line + "\n")
                        log.flush()

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines that the process printed."""
        return tuple(self._lines)

    async def ended(self) -> ChildExit:
        """Wait until the process has ended and its remaining output is read."""
        code = await self._process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=1)
        return ChildExit(self.name, code, tuple(self._lines), self._refusal, self.pid)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended. Another process may have its pid by then."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """Send SIGKILL to the whole process group. A pending `ended` then returns how the process
        ended.
        """
        if not self.has_ended:
            self._signal(signal.SIGKILL)

    async def stop(self, *, grace_s: float = STOP_S) -> None:
        """Send SIGTERM to the whole process group, and SIGKILL once it has ended or after `grace_s`
        seconds.
        """
        self.stopping = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self.has_ended:
            self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            pass
        # Also after a clean end: a grandchild may still be there.
        self._signal(signal.SIGKILL)
        await self._process.wait()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
