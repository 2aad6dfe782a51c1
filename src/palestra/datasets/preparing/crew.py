"""Who does the jobs: one process alone, or one process for each core."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Protocol, final

from palestra.datasets.preparing.jobs import Hand, Job
from palestra.datasets.preparing.rows import DatasetRows
from palestra.errors import PalestraError, RunFailed

WORTH_PROCESSES_BYTES: Final = 48 << 20
"""From so many bytes on, other processes save more time than they take to start."""
MOST_PROCESSES: Final = 16
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
    """Processes that end with this one, however it ends: each sees its pipe close."""

    def __init__(self, datasets: tuple[DatasetRows, ...], count: int) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["__main__", __name__])  # what each needs, imported once
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, datasets), daemon=True)
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)

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

    def _send(self, end: Connection, job: Job) -> None:
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
            process.join(_ENDS_WITHIN_S)
            if process.is_alive():
                process.kill()
                process.join()


def _ended() -> RunFailed:
    return RunFailed(
        "a process that read rows has ended by itself",
        hint="look for an OOM kill in the system's log; with fewer cores (taskset) it needs less",
    )


def _work(end: Connection, datasets: tuple[DatasetRows, ...]) -> None:
    """A process of the crew: answers jobs until there is nobody to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who gives the jobs decides
    hand = Hand(datasets)
    with contextlib.suppress(EOFError, OSError):
        while True:
            job = end.recv()
            try:
                answer: tuple[PalestraError | None, Any] = None, hand.do(job)
            except Exception as error:
                answer = _portable(error), None
            end.send(answer)


def _portable(error: Exception) -> PalestraError:
    """Errors of any class need not survive the way to another process."""
    if isinstance(error, PalestraError):
        return RunFailed(error.message)
    return RunFailed(f"{type(error).__name__}: {error}")
