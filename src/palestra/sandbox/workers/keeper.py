"""The caller's side of a nursery: starts it, has it fork workers, ends it."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Final, final

import msgspec

from palestra.errors import excerpt
from palestra.sandbox.workers.held import Held, NoProcess
from palestra.sandbox.workers.nursery import Order
from palestra.sandbox.workers.outcomes import WorkersBroken

START_LIMIT_S: Final = 120.0
"""For the nursery's imports and a fork: seconds at most, minutes on a machine in trouble."""
LAST_WORDS_S: Final = 5.0
"""For a nursery whose imports have taken too long to print where they stand."""
END_LIMIT_S: Final = 5.0
FORK_PAUSES_S: Final = (0.1, 0.3, 1.0, 3.0)
"""Between attempts when the system has no process left, which passes."""

CALLS_BY_NAME: Final = "palestra.sandbox.workers.worker:calls_by_name"

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
"""Of our environment; keys and tokens have no business where models' text is worked on."""

_PROGRAM = "import sys, json; order = sys.stdin.buffer.read(); "
_PROGRAM += "sys.path[:] = json.loads(order)['path']; "
_PROGRAM += "from palestra.sandbox.workers.nursery import main; main(order)"


@final
class Keeper:
    """Starts the nursery when it is first needed, and again when it has gone."""

    def __init__(
        self,
        *,
        preload: Sequence[str] = (),
        memory_mib: int,
        calls: int = 0,
        growth_mib: int = 0,
        program: str = CALLS_BY_NAME,
        argument: Any = None,
        as_here: bool = False,
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        """`program`, `argument`: see `Order`. `as_here`: workers see the environment variables of
        this process, and print where it does. `start_limit_s`: for the imports, and for a fork.
        """
        self._start_limit_s = start_limit_s
        self._program = program
        self._argument = argument
        self._as_here = as_here
        self._preload = list(preload)
        self._memory_mib = memory_mib
        self._calls = calls
        self._growth_mib = growth_mib
        self._nursery: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._complaints: IO[bytes] | None = None

    async def fork(self) -> Held:
        """A new worker, ready for calls. Raises WorkersBroken."""
        for pause_s in FORK_PAUSES_S:
            try:
                return await self._fork()
            except NoProcess:
                await asyncio.sleep(pause_s)
        return await self._fork()

    async def _fork(self) -> Held:
        worker = self._ask()
        try:
            async with asyncio.timeout(self._start_limit_s + LAST_WORDS_S):
                if await worker.become_ready():
                    return worker
                refusal = await worker.why_not()
        except TimeoutError:
            worker.kill()
            message = f"a worker was not ready after {self._start_limit_s:g} s"
            raise WorkersBroken(message) from None
        except BaseException:
            worker.kill()
            raise
        worker.kill()
        raise refusal or WorkersBroken(f"the workers cannot start: {self._complaint()}")

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
        outputs = _outputs() if self._as_here else ()
        order = Order(
            control=theirs.fileno(),
            preload=self._preload,
            path=sys.path,
            memory_mib=self._memory_mib,
            calls=self._calls,
            growth_mib=self._growth_mib,
            program=self._program,
            argument=self._argument,
            start_limit_s=self._start_limit_s,
            outputs=(outputs[0], outputs[1]) if outputs else None,
        )
        self._control = ours
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        try:
            # Not an argument of the command: every user of the machine can read those.
            with tempfile.TemporaryFile() as order_file:
                order_file.write(msgspec.json.encode(order))
                order_file.seek(0)
                self._nursery = subprocess.Popen(  # noqa: S603  # this interpreter, this package
                    [sys.executable, "-c", _PROGRAM],
                    stdin=order_file,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    pass_fds=(theirs.fileno(), *outputs),
                    env=None if self._as_here else _environment(),
                    # Ctrl-C reaches us alone; it ends with us.
                    start_new_session=True,
                )
        except OSError as error:
            self.end()
            raise NoProcess(f"no process for the workers' nursery: {error}") from error
        finally:
            theirs.close()
            for output in outputs:
                os.close(output)
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


def _outputs() -> tuple[int, int]:
    """Copies of this process's output and errors; of the null device where one is closed."""
    copies = []
    for descriptor in (1, 2):
        try:
            copies.append(os.dup(descriptor))
        except OSError:
            copies.append(os.open(os.devnull, os.O_WRONLY))
    return copies[0], copies[1]


def _environment() -> dict[str, str]:
    """For the nursery: the same for everybody, so that the same call has the same value."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**passed_on, **one_thread, "PYTHONHASHSEED": "0"}
