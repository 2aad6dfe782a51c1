"""The caller's side of a nursery and of the workers that it forked."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, Final, final

import msgspec

from palestra.errors import excerpt
from palestra.sandbox.workers.clock import WorkClock
from palestra.sandbox.workers.frames import BrokenFrame, receive_answer
from palestra.sandbox.workers.nursery import EXIT_CODE, Order
from palestra.sandbox.workers.outcomes import (
    Crashed,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    WorkersBroken,
)
from palestra.sandbox.workers.worker import NO_MEMORY, RAISED, VALUE

START_LIMIT_S: Final = 120.0
"""For the nursery's imports and a fork: seconds at most, minutes on a machine in trouble."""
END_LIMIT_S: Final = 5.0
STARVED_S: Final = 600.0
"""A call whose worker got no core for so long says nothing about its data."""

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
"""Of our environment; keys and tokens have no business where models' text is worked on."""

_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1])['path']; "
_PROGRAM += "from palestra.sandbox.workers.nursery import main; main()"


@final
class Held:
    """A worker that we hold: its line is open, so it lives."""

    def __init__(self, calls: socket.socket, line: socket.socket, memory_mib: int) -> None:
        self._calls = calls
        self._line = line
        self._memory_mib = memory_mib
        self._pid = 0
        self.usable = False
        """Whether it waits for another call."""

    async def become_ready(self) -> bool:
        """Wait for its first word; False when there was none."""
        try:
            answer = await receive_answer(self._calls)
        except BrokenFrame:
            return False
        if answer is None:
            return False
        self._pid = answer[2]
        self.usable = True
        return True

    def alive(self) -> bool:
        """Whether it has not ended while nobody called."""
        # Its own end of the calls is closed with it; the nursery tells of it a moment later.
        return not select.select([self._line, self._calls], [], [], 0)[0]

    def kill(self) -> None:
        """Let go of it: the nursery kills it, whatever it is doing."""
        self.usable = False
        self._calls.close()
        self._line.close()

    async def run(self, frame: bytes, limit_s: float) -> Outcome:
        """Make it run one call. It is `usable` afterwards, or to be killed."""
        self.usable = False
        clock = WorkClock(self._pid)
        exchange = asyncio.create_task(self._exchange(frame))
        try:
            left_s = limit_s
            while left_s > 0:
                done, _ = await asyncio.wait({exchange}, timeout=left_s)
                if done:
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
            await loop.sock_sendall(self._calls, frame)
        except (BrokenPipeError, ConnectionResetError):
            return await self._ending()
        try:
            answer = await receive_answer(self._calls)
            return await self._ending() if answer is None else self._outcome(*answer)
        except (BrokenFrame, TypeError, ValueError) as error:
            raise WorkersBroken(f"a worker answered what is no answer: {error}") from None

    def _outcome(self, kind: str, last: bool, *said: Any) -> Outcome:
        self.usable = not last
        if kind == VALUE:
            (value,) = said
            return Returned(value)
        if kind == RAISED:
            return Raised(*said)
        if kind == NO_MEMORY:
            return OutOfMemory(self._memory_mib)
        raise ValueError(f"a message of the kind {kind!r}")

    async def _ending(self) -> Outcome:
        """What the nursery says about how it ended."""
        loop = asyncio.get_running_loop()
        said = b""
        with suppress(TimeoutError, ConnectionResetError):
            async with asyncio.timeout(END_LIMIT_S):
                said = await loop.sock_recv(self._line, EXIT_CODE.size)
        if len(said) != EXIT_CODE.size:
            raise WorkersBroken("the workers' nursery ended while a call was running")
        code: int = EXIT_CODE.unpack(said)[0]
        if code == -signal.SIGKILL:
            raise WorkersBroken(
                "a worker was killed from outside",
                hint="look for the kernel's out-of-memory message (dmesg)",
            )
        if code < 0:
            return Crashed(-code)
        raise WorkersBroken(f"a worker ended with exit code {code} while a call was running")


@final
class Keeper:
    """Starts the nursery when it is first needed, and again when it has gone."""

    def __init__(
        self, *, preload: Sequence[str], memory_mib: int, calls: int, growth_mib: int
    ) -> None:
        self._preload = list(preload)
        self._memory_mib = memory_mib
        self._calls = calls
        self._growth_mib = growth_mib
        self._nursery: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._complaints: IO[bytes] | None = None

    async def fork(self) -> Held:
        """A new worker, ready for calls. Raises WorkersBroken."""
        worker = self._ask()
        try:
            async with asyncio.timeout(START_LIMIT_S):
                ready = await worker.become_ready()
        except TimeoutError:
            worker.kill()
            raise WorkersBroken(f"a worker was not ready after {START_LIMIT_S:.0f} s") from None
        except BaseException:
            worker.kill()
            raise
        if not ready:
            worker.kill()
            raise WorkersBroken(f"the workers cannot start: {self._complaint()}")
        return worker

    def _ask(self) -> Held:
        for _ in range(2):
            control = self._control or self._start()
            calls, their_calls = socket.socketpair()
            line, their_line = socket.socketpair()
            for ours in (calls, line):
                ours.setblocking(False)
            try:
                socket.send_fds(control, [b"+"], [their_calls.fileno(), their_line.fileno()])
            except OSError:  # it has gone
                calls.close()
                line.close()
                self.end()
            else:
                return Held(calls, line, self._memory_mib)
            finally:
                their_calls.close()
                their_line.close()
        raise WorkersBroken("the workers' nursery does not stay alive")

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        order = Order(
            control=theirs.fileno(),
            preload=self._preload,
            path=sys.path,
            memory_mib=self._memory_mib,
            calls=self._calls,
            growth_mib=self._growth_mib,
        )
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        self._nursery = subprocess.Popen(  # noqa: S603  # this interpreter, this package
            [sys.executable, "-c", _PROGRAM, msgspec.json.encode(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            pass_fds=(theirs.fileno(),),
            env=_environment(),
            # Ctrl-C reaches us alone; it ends with us.
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        return ours

    def _complaint(self) -> str:
        """What the nursery printed before it was ready; it is gone or useless now."""
        complaints = self._complaints
        if complaints is None:
            return "it was closed"
        complaints.seek(0)
        said = excerpt(complaints.read()[-2000:]).strip()
        self.end()
        return said or "it printed nothing"

    def end(self) -> None:
        """End the nursery and with it every worker. Blocks for moments; any thread may call."""
        control, self._control = self._control, None
        nursery, self._nursery = self._nursery, None
        complaints, self._complaints = self._complaints, None
        if control is not None:
            control.close()
        if nursery is not None:
            try:
                nursery.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                nursery.kill()
                nursery.wait()
        if complaints is not None:
            complaints.close()


def _environment() -> dict[str, str]:
    """For the nursery: the same for everybody, so that the same call has the same value."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**passed_on, **one_thread, "PYTHONHASHSEED": "0"}
