"""The caller's handle of one worker: it runs a call within a limit, and finds out how the worker
ended.
"""

import asyncio
import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from palestra.sandbox.workers.frames import BrokenFrame, receive_answer
from palestra.sandbox.workers.nursery import EXIT_CODE, FIRST_ERRNO
from palestra.sandbox.workers.outcomes import (
    Crashed,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    WorkersBroken,
)
from palestra.sandbox.workers.worker import NO_MEMORY, RAISED, READY, VALUE
from palestra.system import how_ended


@final
class WorkClock:
    """A clock that starts when it is created and leaves out time spent waiting for a core. Where
    the system does not report this time, it is an ordinary clock.
    """

    def __init__(self, pid: int) -> None:
        self._schedstat = Path(f"/proc/{pid}/schedstat")
        self._started = time.monotonic()
        self._queued_at_start_s = self._queued_s()

    def wall_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def worked_s(self) -> float:
        """Return the seconds since the start, without those in which the process waited for a core."""
        return self.wall_s() - (self._queued_s() - self._queued_at_start_s)

    def _queued_s(self) -> float:
        try:
            return int(self._schedstat.read_text("ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


CRASHES: Final = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
    }
)
"""Signals that a process causes by its own code. Any other signal comes from outside."""
ENDING_LIMIT_S: Final = 5.0
"""The seconds that the nursery has to report how a worker ended."""
STARVED_S: Final = 600.0
"""After this many seconds without a core, a call fails as WorkersBroken, because its data is not to
blame."""


class NoProcess(WorkersBroken):
    """The system refused to create another process."""


@final
class WorkerHandle:
    """A worker that this process holds. It lives as long as its line is open."""

    def __init__(self, calls: socket.socket, line: socket.socket, memory_mib: int) -> None:
        self.calls = calls
        self.line = line
        self._memory_mib = memory_mib
        self.pid = 0
        self._refusal = ""
        """What it said instead of being ready."""
        self.usable = False
        """Whether it waits for another call."""

    async def become_ready(self) -> bool:
        """Wait until the worker reports that it is ready. False when it does not."""
        try:
            answer = await receive_answer(self.calls)
        except BrokenFrame:
            return False
        if answer is None:
            return False
        if answer[0] != READY:
            self._refusal = str(answer[2])
            return False
        self.pid = answer[2]
        self.usable = True
        return True

    def alive(self) -> bool:
        """Whether the idle worker has not ended."""
        # Its own end of the calls is closed with it; the nursery tells of it a moment later.
        poll = select.poll()  # takes numbers of files that are too high for select()
        poll.register(self.line, select.POLLIN)
        poll.register(self.calls, select.POLLIN)
        return not poll.poll(0)

    def kill(self) -> None:
        """Close the worker's sockets, so that the nursery kills it."""
        self.usable = False
        self.calls.close()
        self.line.close()

    async def run(self, frame: bytes, limit_s: float) -> Outcome:
        """Run one call in the worker. Afterwards the worker is `usable`, or the caller must kill
        it.
        """
        self.usable = False
        clock = WorkClock(self.pid)
        exchange = asyncio.create_task(self._exchange(frame))
        try:
            left_s = limit_s
            while left_s > 0:
                finished, _ = await asyncio.wait({exchange}, timeout=left_s)
                if finished:
                    return exchange.result()
                if clock.wall_s() - limit_s > STARVED_S:
                    raise WorkersBroken(f"a worker got no core for {STARVED_S:.0f} s")
                left_s = limit_s - clock.worked_s()
            return TimedOut(limit_s)
        finally:
            if not exchange.done():
                # Before its sockets are closed, the loop must have forgotten them.
                exchange.cancel()
                await asyncio.wait({exchange})

    async def _exchange(self, frame: bytes) -> Outcome:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self.calls, frame)
        except (BrokenPipeError, ConnectionResetError):
            return await self._ending()
        try:
            answer = await receive_answer(self.calls)
            return await self._ending() if answer is None else self._outcome(*answer)
        except (BrokenFrame, TypeError, ValueError) as error:
            raise WorkersBroken(f"a worker answered what is not an answer: {error}") from None

    def _outcome(self, kind: str, last: bool, *payload: Any) -> Outcome:
        self.usable = not last
        if kind == VALUE:
            (value,) = payload
            return Returned(value)
        if kind == RAISED:
            return Raised(*payload)
        if kind == NO_MEMORY:
            return OutOfMemory(self._memory_mib)
        raise ValueError(f"a message of the kind {kind!r}")

    async def why_not(self) -> WorkersBroken | None:
        """Return why the worker did not become ready; None when its nursery has ended."""
        if self._refusal:
            return WorkersBroken(self._refusal)
        code = await self.exit_code()
        if code is None:
            return None
        if code >= FIRST_ERRNO:
            return NoProcess(f"no process for a worker: {os.strerror(code - FIRST_ERRNO)}")
        return WorkersBroken(f"a worker ended before it was ready, with exit code {code}")

    async def _ending(self) -> Outcome:
        """Return how the worker ended while a call was running."""
        code = await self.exit_code()
        if code is None:
            raise WorkersBroken("the workers' nursery ended while a call was running")
        if code == -signal.SIGKILL:
            raise WorkersBroken(
                "a worker was killed from outside",
                hint="look for the kernel's out-of-memory message (dmesg)",
            )
        if -code in CRASHES:
            return Crashed(-code)
        if code < 0:
            # A cluster that takes a job back says so to each of its processes.
            raise WorkersBroken(f"a worker was ended from outside, by {how_ended(code)}")
        raise WorkersBroken(f"a worker ended with {how_ended(code)} while a call was running")

    async def exit_code(self) -> int | None:
        """Read the worker's exit code from the nursery; None when the nursery has ended too."""
        loop = asyncio.get_running_loop()
        status_bytes = b""
        with suppress(TimeoutError, ConnectionResetError):
            async with asyncio.timeout(ENDING_LIMIT_S):
                status_bytes = await loop.sock_recv(self.line, EXIT_CODE.size)
        if len(status_bytes) != EXIT_CODE.size:
            return None
        code: int = EXIT_CODE.unpack(status_bytes)[0]
        return code
