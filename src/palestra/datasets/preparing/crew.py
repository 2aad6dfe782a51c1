"""Who does the jobs: one process alone, or one process for each core."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Protocol, final

from palestra.datasets.preparing.jobs import Hand, Job
from palestra.datasets.preparing.outputs import CannotWrite
from palestra.datasets.preparing.rows import DatasetRows
from palestra.errors import ConfigError, InputDataError, PalestraError, RunFailed
from palestra.system import start

WORTH_PROCESSES_BYTES: Final = 48 << 20
"""From so many bytes on, other processes save more time than they take to start."""
MOST_PROCESSES: Final = 16
_WORK: Final = f"""
import sys
from multiprocessing.connection import Connection
from {__name__} import work
work(Connection(int(sys.argv[1])))
"""
_KEEPS_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""For glibc: what is freed is used again. Given back and asked for anew, block after block, it took
longer than decoding the rows."""
_SILENT_FOR_S: Final = 600.0
_ENDS_WITHIN_S: Final = 5.0


class Crew(Protocol):
    """Does jobs."""

    def each(self, jobs: Sequence[Job], /) -> Iterator[Any]:
        """The results, in the order of the jobs."""


@contextlib.contextmanager
def crew_for(datasets: Sequence[DatasetRows], *, processes: int | None = None) -> Iterator[Crew]:
    """A crew for these datasets; `processes`: how many, 0 for none but this one."""
    size = sum(rows.path.stat().st_size for rows in datasets)
    if processes is None:
        processes = min(_cores(), MOST_PROCESSES) if size >= WORTH_PROCESSES_BYTES else 0
    if processes < 1:
        yield Alone(tuple(datasets))
        return
    crew = Processes(tuple(datasets), processes)
    try:
        yield crew
    finally:
        crew.close()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@final
class Alone:
    """The process that asks."""

    def __init__(self, datasets: tuple[DatasetRows, ...]) -> None:
        self._hand = Hand(datasets)

    def each(self, jobs: Sequence[Job], /) -> Iterator[Any]:
        """One after the other."""
        return map(self._hand.do, jobs)


@final
class Processes:
    """Processes that end with this one, however it ends: each sees its connection close."""

    def __init__(self, datasets: tuple[DatasetRows, ...], count: int) -> None:
        self._ends: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        paths = os.pathsep.join(path for path in sys.path if path)
        for _ in range(count):
            ours, theirs = socket.socketpair()
            with theirs:
                # Not multiprocessing: it would import the caller's main module once more in each.
                process = start(
                    [sys.executable, "-c", _WORK, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env={**_KEEPS_MEMORY, **os.environ, "PYTHONPATH": paths},
                )
            self._ends.append(Connection(ours.detach()))
            self._processes.append(process)
        for end in self._ends:
            self._send(end, datasets)

    def each(self, jobs: Sequence[Job], /) -> Iterator[Any]:
        """As they become free; no further ahead of what was taken than memory allows."""
        ahead = 4 * len(self._ends)
        doing: dict[Connection, int] = {}
        done: dict[int, Any] = {}
        free = list(self._ends)
        following = 0
        for wanted in range(len(jobs)):
            while wanted not in done:
                while free and following < min(len(jobs), wanted + ahead):
                    end = free.pop()
                    self._send(end, jobs[following])
                    doing[end] = following
                    following += 1
                for end in self._ready(list(doing)):
                    done[doing.pop(end)] = self._receive(end)
                    free.append(end)
            yield done.pop(wanted)

    def _ready(self, ends: list[Connection]) -> list[Connection]:
        ready = wait(ends, timeout=_SILENT_FOR_S)
        if not ready:
            raise RunFailed(f"no process has read a part within {_SILENT_FOR_S:.0f} s")
        return [end for end in ends if end in ready]

    def _send(self, end: Connection, job: Job | tuple[DatasetRows, ...]) -> None:
        try:
            end.send(job)
        except OSError as error:
            raise _ended() from error

    def _receive(self, end: Connection) -> Any:
        try:
            error, result = end.recv()
        except (EOFError, OSError) as gone:
            raise _ended() from gone
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End them."""
        for end in self._ends:
            end.close()
        for process in self._processes:
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ended() -> RunFailed:
    return RunFailed(
        "a process that read rows has ended by itself",
        hint="look for an OOM kill in the system's log; with fewer cores (taskset) it needs less",
    )


def work(end: Connection) -> None:
    """A process of the crew: answers jobs until there is nobody to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who gives the jobs decides
    with contextlib.suppress(EOFError, OSError):
        hand = Hand(end.recv())
        while True:
            job = end.recv()
            try:
                answer: tuple[PalestraError | None, Any] = None, hand.do(job)
            except Exception as error:
                answer = _portable(error), None
            end.send(answer)


def _portable(error: Exception) -> PalestraError:
    """Errors of any class need not survive the way to another process; those that are told do."""
    if isinstance(error, CannotWrite | ConfigError | InputDataError | RunFailed):
        return type(error)(error.message, hint=error.hint)
    return RunFailed(f"{type(error).__name__}: {error}")
