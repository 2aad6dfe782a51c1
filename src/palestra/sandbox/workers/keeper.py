"""The caller's side of a nursery: start it or reuse a kept one, fork workers, and end it."""

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

from palestra.errors import REFUSAL_MARK, excerpt, read_refusal
from palestra.sandbox.workers.handle import NoProcess, WorkerHandle
from palestra.sandbox.workers.nursery import NurseryOrder
from palestra.sandbox.workers.outcomes import NotReady, WorkersBroken
from palestra.system import start

END_LIMIT_S: Final = 5.0
MOST_KEPT: Final = 4
"""The maximum number of nurseries that are kept. Each holds the memory of its imports, 80 MB or
more."""


@final
@dataclass(frozen=True, slots=True)
class StartedNursery:
    """A nursery process, with its control socket and its error output."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    complaints: IO[bytes]
    """What the nursery prints before it is ready."""

    def end(self) -> None:
        """End the nursery and all its workers. Blocks for a moment."""
        self.control.close()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


@final
class NurseryStock:
    """Nurseries that are not in use, by the inputs they were built from. The one unused for longest
    is ended first.

    All methods are thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nurseries: dict[Hashable, StartedNursery] = {}
        self.unlike: frozenset[str] = frozenset()
        """Environment variables that may differ: they make no other nursery."""

    def take(self, made_of: Hashable) -> StartedNursery | None:
        """Return a nursery that was built from the same inputs and still runs; None when there is
        none.
        """
        with self._lock:
            nursery = self._nurseries.pop(made_of, None)
        if nursery is not None and nursery.process.poll() is not None:
            nursery.end()
            return None
        return nursery

    def put(self, made_of: Hashable, nursery: StartedNursery) -> None:
        """Keep a nursery that has no workers any more."""
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
        """End all kept nurseries."""
        with self._lock:
            nurseries, self._nurseries = self._nurseries, {}
        for nursery in nurseries.values():
            nursery.end()


_KEPT: Final = NurseryStock()
atexit.register(_KEPT.end)
_stock: ContextVar[NurseryStock | None] = ContextVar("palestra_nursery_stock", default=None)


@contextlib.contextmanager
def nurseries_kept(*unlike: str) -> Iterator[None]:
    """Let keepers that are created in the body reuse each other's nurseries, until this process
    ends.

    `unlike`: environment variables that may differ between such keepers.
    """
    _KEPT.unlike |= frozenset(unlike)
    token = _stock.set(_KEPT)
    try:
        yield
    finally:
        _stock.reset(token)


def stock_here() -> NurseryStock | None:
    """Return the stock into which keepers created now put their nurseries; None when they end them
    instead.
    """
    return _stock.get()


START_LIMIT_S: Final = 120.0
"""The seconds that the nursery's imports and a fork may take. Normally they take a few seconds, but
minutes on an overloaded machine."""
LAST_WORDS_S: Final = 5.0
"""The additional seconds in which a nursery whose imports took too long prints where they stand."""
FORK_PAUSES_S: Final = (0.1, 0.3, 1.0, 3.0)
"""The pauses in seconds between attempts when the system cannot create a process, which is usually
temporary."""

CALLS_BY_NAME: Final = "palestra.sandbox.workers.worker:calls_by_name"

_OUT_OF_TIME: Final = re.compile(r"^Timeout \([\d:.]+\)!$", re.MULTILINE)
"""The line before the stacks that a nursery prints when its imports took too long."""

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
"""The environment variables that workers get. Keys and tokens are left out, because workers process
models' text."""

_PROGRAM = "import sys, json; order = sys.stdin.buffer.read(); "
_PROGRAM += "sys.path[:] = json.loads(order)['path']; "
_PROGRAM += "from palestra.sandbox.workers.nursery import main; main(order)"


@final
class Keeper:
    """Starts a nursery when it is first needed, and again after it has ended."""

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
        path: Sequence[str] | None = None,
    ) -> None:
        """`program`, `argument`: see `NurseryOrder`. `as_here`: workers get this process's
        environment variables, and print to its output. `sources`: the file or folder that the
        nursery imports; when a file in it has changed, a kept nursery is not reused.
        `start_limit_s`: the limit for the imports, and for a fork. `path`: the `sys.path` of the
        workers; by default that of this process.
        """
        self._path = path
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
        """Return a new worker that is ready for calls. Raises WorkersBroken."""
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
        raise WorkersBroken(
            "the process that starts the sandbox's workers ended each time it was started"
        )

    def _take(self) -> StartedNursery | None:
        """Take a kept nursery of another keeper that was built from the same inputs; None when
        there is none.
        """
        if self._stock is None:
            return None
        self._made_of = self._ingredients()
        stocked = self._stock.take(self._made_of)
        self._is_reused = stocked is not None
        return stocked

    def _ingredients(self) -> Hashable:
        """Return the inputs that determine a nursery: program, preloads, limits, `sys.path`,
        surroundings, source files.
        """
        surroundings = (self._variables(), Path.cwd(), _output_files()) if self._as_here else ()
        limits = (self._memory_mib, self._calls, self._growth_mib)
        what = (self._program, msgspec.json.encode(self._argument), *self._preload)
        files = () if self._sources is None else tuple(_stamps(self._sources))
        return what, limits, tuple(self._path or sys.path), surroundings, files

    def _variables(self) -> frozenset[tuple[str, str]]:
        """Return the environment variables that determine a nursery."""
        unlike = frozenset() if self._stock is None else self._stock.unlike
        return frozenset(pair for pair in os.environ.items() if pair[0] not in unlike)

    def _start(self) -> StartedNursery:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        outputs = _outputs() if self._as_here else ()
        order = NurseryOrder(
            control=theirs.fileno(),
            preload=self._preload,
            path=list(self._path or sys.path),
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
                    # -P: a json.py in the working directory must not hide the standard library's.
                    [sys.executable, "-P", "-c", _PROGRAM],
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
        """Return the error with what the nursery printed before it was ready, and end the nursery."""
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
        if REFUSAL_MARK in text:
            refusal = read_refusal(text.rpartition(REFUSAL_MARK)[2].partition("\n")[0])
            return WorkersBroken(f"the workers cannot start: {refusal.message}", hint=refusal.hint)
        complaint = excerpt(text[-2000:]).strip() or "it printed nothing"
        return WorkersBroken(f"the workers cannot start: {complaint}")

    def end(self) -> None:
        """End the nursery and all its workers. Where nurseries are kept, put it into the stock
        instead; its workers must have ended. Blocks for a moment. Thread-safe.
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
    """Yield name, modification time and size of each file in `sources`, without hidden files and
    bytecode.
    """
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
    """Return which files this process's standard output and standard error go to."""
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
    """Return copies of this process's descriptors for standard output and standard error. A closed
    one is replaced by the null device.
    """
    copies = []
    for descriptor in (1, 2):
        try:
            copies.append(os.dup(descriptor))
        except OSError:
            copies.append(os.open(os.devnull, os.O_WRONLY))
    return copies[0], copies[1]


def _environment() -> dict[str, str]:
    """Return the nursery's environment. It is the same for every user, so that the same call
    returns the same value.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**passed_on, **one_thread, "PYTHONHASHSEED": "0"}
