"""The caller's side of a nursery: starts it or takes one that is kept, has it fork workers, ends it."""

import asyncio
import atexit
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, final

import msgspec

from palestra.errors import excerpt
from palestra.sandbox.workers.handle import NoProcess, WorkerHandle
from palestra.sandbox.workers.nursery import NurseryOrder
from palestra.sandbox.workers.outcomes import NotReady, WorkersBroken
from palestra.system import start

END_LIMIT_S: Final = 5.0
MOST_KEPT: Final = 4
"""A nursery holds the memory of its imports: 80 MB and more."""


@final
@dataclass(frozen=True, slots=True)
class StartedNursery:
    """A nursery process, and what its keeper holds of it."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    complaints: IO[bytes]
    """What it prints before it is ready."""

    def end(self) -> None:
        """End it, and with it every worker. Blocks for moments."""
        self.control.close()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


@final
class NurseryStock:
    """Nurseries that nobody uses now, by what they were made of; the longest unused goes first.

    Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nurseries: dict[Hashable, StartedNursery] = {}
        self.unlike: frozenset[str] = frozenset()
        """Environment variables that may differ: they make no other nursery."""

    def take(self, made_of: Hashable) -> StartedNursery | None:
        """One that was made of the same and still runs."""
        with self._lock:
            nursery = self._nurseries.pop(made_of, None)
        if nursery is not None and nursery.process.poll() is not None:
            nursery.end()
            return None
        return nursery

    def put(self, made_of: Hashable, nursery: StartedNursery) -> None:
        """Keep one that has no workers any more."""
        surplus = []
        with self._lock:
            if (twin := self._nurseries.pop(made_of, None)) is not None:
                surplus.append(twin)
            self._nurseries[made_of] = nursery
            while len(self._nurseries) > MOST_KEPT:
                surplus.append(self._nurseries.pop(next(iter(self._nurseries))))
        for unused in surplus:
            unused.end()

    def end(self) -> None:
        """End them all."""
        with self._lock:
            nurseries, self._nurseries = self._nurseries, {}
        for nursery in nurseries.values():
            nursery.end()


_KEPT: Final = NurseryStock()
atexit.register(_KEPT.end)
_stock: ContextVar[NurseryStock | None] = ContextVar("palestra_nursery_stock", default=None)


@contextlib.contextmanager
def nurseries_kept(*unlike: str) -> Iterator[None]:
    """Keepers made in the body keep their nurseries for each other, until this process ends.

    `unlike`: environment variables in which these may differ.
    """
    _KEPT.unlike |= frozenset(unlike)
    token = _stock.set(_KEPT)
    try:
        yield
    finally:
        _stock.reset(token)


def stock_here() -> NurseryStock | None:
    """Where keepers made now leave their nurseries; None where they end them."""
    return _stock.get()


START_LIMIT_S: Final = 120.0
"""For the nursery's imports and a fork: seconds at most, minutes on a machine in trouble."""
LAST_WORDS_S: Final = 5.0
"""For a nursery whose imports have taken too long to print where they stand."""
FORK_PAUSES_S: Final = (0.1, 0.3, 1.0, 3.0)
"""Between attempts when the system has no process left, which passes."""

CALLS_BY_NAME: Final = "palestra.sandbox.workers.worker:calls_by_name"

_OUT_OF_TIME: Final = re.compile(r"^Timeout \([\d:.]+\)!$", re.MULTILINE)
"""What stands before the stacks of a nursery whose imports have taken too long."""

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
        sources: Path | None = None,
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        """`program`, `argument`: see `NurseryOrder`. `as_here`: workers see the environment variables of
        this process, and print where it does. `sources`: the file or folder that it imports, so
        that a nursery that was kept is not used when one of them has changed. `start_limit_s`: for
        the imports, and for a fork.
        """
        self._start_limit_s = start_limit_s
        self._program = program
        self._argument = argument
        self._as_here = as_here
        self._preload = list(preload)
        self._memory_mib = memory_mib
        self._calls = calls
        self._growth_mib = growth_mib
        self._sources = sources
        self._stock = stock_here()
        self._made_of: Hashable = None
        self._is_reused = False
        self._nursery: StartedNursery | None = None

    async def fork(self) -> WorkerHandle:
        """A new worker, ready for calls. Raises WorkersBroken."""
        for pause_s in FORK_PAUSES_S:
            try:
                return await self._fork()
            except NoProcess:
                await asyncio.sleep(pause_s)
        return await self._fork()

    async def _fork(self) -> WorkerHandle:
        worker = self._ask()
        asked_nursery = self._nursery
        try:
            async with asyncio.timeout(self._start_limit_s + LAST_WORDS_S):
                if await worker.become_ready():
                    return worker
                refusal = await worker.why_not()
        except TimeoutError:
            worker.kill()
            message = f"a worker was not ready after {self._start_limit_s:g} s"
            raise NotReady(message) from None
        except BaseException:
            worker.kill()
            raise
        worker.kill()
        if refusal is None and self._nursery is not None:
            has_another = self._nursery is not asked_nursery  # made by a fork beside this one
            if has_another or self._is_reused:  # it has ended since: a new one decides
                if not has_another:
                    self._end()
                return await self._fork()
        raise refusal or self._complaint()

    def _ask(self) -> WorkerHandle:
        for _ in range(2):
            nursery = self._nursery = self._nursery or self._take() or self._start()
            calls, their_calls = socket.socketpair()
            line, their_line = socket.socketpair()
            for ours in (calls, line):
                ours.setblocking(False)
            try:
                socket.send_fds(
                    nursery.control, [b"+"], [their_calls.fileno(), their_line.fileno()]
                )
            except OSError:  # it has gone
                calls.close()
                line.close()
                self._end()
            else:
                return WorkerHandle(calls, line, self._memory_mib)
            finally:
                their_calls.close()
                their_line.close()
        raise WorkersBroken("the workers' nursery does not stay alive")

    def _take(self) -> StartedNursery | None:
        """A nursery that another keeper has left, and that is what ours would be."""
        if self._stock is None:
            return None
        self._made_of = self._ingredients()
        stocked = self._stock.take(self._made_of)
        self._is_reused = stocked is not None
        return stocked

    def _ingredients(self) -> Hashable:
        """What makes one nursery another than the next."""
        surroundings = (self._variables(), Path.cwd(), _output_files()) if self._as_here else ()
        limits = (self._memory_mib, self._calls, self._growth_mib)
        what = (self._program, msgspec.json.encode(self._argument), *self._preload)
        files = () if self._sources is None else tuple(_stamps(self._sources))
        return what, limits, tuple(sys.path), surroundings, files

    def _variables(self) -> frozenset[tuple[str, str]]:
        """The environment variables that make a difference."""
        unlike = frozenset() if self._stock is None else self._stock.unlike
        return frozenset(pair for pair in os.environ.items() if pair[0] not in unlike)

    def _start(self) -> StartedNursery:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        outputs = _outputs() if self._as_here else ()
        order = NurseryOrder(
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
        complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the nursery
        try:
            # Not an argument of the command: every user of the machine can read those.
            with tempfile.TemporaryFile() as order_file:
                order_file.write(msgspec.json.encode(order))
                order_file.seek(0)
                process = start(
                    [sys.executable, "-c", _PROGRAM],
                    stdin=order_file,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    pass_fds=(theirs.fileno(), *outputs),
                    env=None if self._as_here else _environment(),
                )
        except OSError as error:
            ours.close()
            complaints.close()
            raise NoProcess(f"no process for the workers' nursery: {error}") from error
        finally:
            theirs.close()
            for output in outputs:
                os.close(output)
        return StartedNursery(process, ours, complaints)

    def _complaint(self) -> WorkersBroken:
        """What the nursery printed before it was ready; it is gone or useless now."""
        if self._nursery is None:
            return WorkersBroken("the workers cannot start: it was closed")
        complaints = self._nursery.complaints
        complaints.seek(0)
        text = complaints.read().decode("utf-8", "replace")
        self._end()
        if stacks := _OUT_OF_TIME.split(text)[1:]:
            error = NotReady(
                f"the workers were not ready after {self._start_limit_s:g} s:{excerpt(stacks[-1])}"
            )
            error.stacks = stacks[-1]
            return error
        complaint = excerpt(text[-2000:]).strip() or "it printed nothing"
        return WorkersBroken(f"the workers cannot start: {complaint}")

    def end(self) -> None:
        """End the nursery and with it every worker; or leave it, where nurseries are kept, once
        the workers are ended. Blocks for moments; any thread may call.
        """
        if self._stock is None:
            self._end()
            return
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            self._stock.put(self._made_of, nursery)

    def _end(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.end()


def _stamps(sources: Path) -> Iterator[tuple[str, int, int]]:
    """Name, time and size of each file there, without hidden ones and bytecode."""
    paths = [sources]
    while paths:
        path = paths.pop()
        if path.is_dir():
            paths += [p for p in sorted(path.iterdir()) if not p.name.startswith((".", "__py"))]
            continue
        try:
            status = path.stat()
        except OSError:  # a link to nowhere, or removed a moment ago
            continue
        yield str(path), status.st_mtime_ns, status.st_size


def _output_files() -> tuple[tuple[int, int] | None, ...]:
    """Which files our output and errors go to."""
    files: list[tuple[int, int] | None] = []
    for descriptor in (1, 2):
        try:
            status = os.fstat(descriptor)
        except OSError:
            files.append(None)
        else:
            files.append((status.st_dev, status.st_ino))
    return tuple(files)


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
