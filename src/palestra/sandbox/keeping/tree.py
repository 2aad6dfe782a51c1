"""The processes below one keeper: list them, and kill all of them."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

KILL_WITHIN_S = 10.0


class Unreadable(Exception):
    """The kernel does not report a value that is needed to enforce a limit."""


def descendants(pid: int) -> list[int]:
    """Return the ids of all living processes below `pid`, parents first."""
    pids: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        pids += below
        todo += below
    return pids


def check() -> None:
    """Raise `Unreadable` when the kernel does not report a process's children."""
    try:
        _read_file("/proc/thread-self/children")
    except OSError as error:
        raise Unreadable(f"the kernel does not list the children of processes: {error}") from None


def children(pid: int) -> list[int]:
    """Return the ids of a process's living children."""
    tasks = f"/proc/{pid}/task"
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):  # noqa: PTH208  # called twenty times a second
            with contextlib.suppress(OSError):
                pids += map(int, _read_file(f"{tasks}/{task}/children").split())
    return pids


def starved_s(pids: list[int]) -> float:
    """Return the longest time that one of the processes was ready to run but had no processor, in
    seconds.

    0 when the kernel does not count this time. Of a process with threads, only the first thread
    counts.
    """
    waited_ns = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            waited_ns = max(waited_ns, int(_read_file(f"/proc/{pid}/schedstat").split()[1]))
    return waited_ns / 1e9


def kill_all(
    pid: int,
    *,
    within_s: float = KILL_WITHIN_S,
    below: Callable[[int], list[int]] = descendants,
) -> bool:
    """Kill every descendant of `pid`, which must be this process, and reap them.

    All are stopped before they are killed, so that none can start another process meanwhile. If
    they start processes faster than we stop them, each is killed as it appears. False when some are
    left after `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while living := below(pid):
        if time.monotonic() > deadline:
            return False
        stopped: set[int] = set()
        stop_until = min(deadline, time.monotonic() + within_s / 10)
        while fresh := [child for child in living if child not in stopped]:
            _signal(fresh, signal.SIGSTOP)
            stopped.update(fresh)
            living = below(pid)
            if time.monotonic() > stop_until:
                break
        _signal(living, signal.SIGKILL)
        reap()
        if below(pid):
            time.sleep(0.002)
    return True


def reap() -> None:
    """Reap every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def reaped_cpu_s() -> float:
    """Return the CPU time of all reaped children, including their own reaped children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reaped_peak_bytes() -> int:
    """Return the most memory that a single reaped process used."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _read_file(path: str) -> bytes:
    return Path(path).read_bytes()
