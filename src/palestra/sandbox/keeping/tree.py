"""The processes under one keeper: which they are, and the end of all of them."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

KILL_WITHIN_S = 10.0


class Unreadable(Exception):
    """The kernel does not say what is needed to hold a limit."""


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, parents first."""
    pids: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        pids += below
        todo += below
    return pids


def check() -> None:
    """Raise `Unreadable` where the kernel does not say which children a process has."""
    try:
        _read("/proc/thread-self/children")
    except OSError as error:
        raise Unreadable(f"the kernel does not list the children of processes: {error}") from None


def children(pid: int) -> list[int]:
    """The living children of a process."""
    tasks = f"/proc/{pid}/task"
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):  # noqa: PTH208  # called twenty times a second
            with contextlib.suppress(OSError):
                pids += map(int, _read(f"{tasks}/{task}/children").split())
    return pids


def starved_s(pids: list[int]) -> float:
    """How long the one that waited most for a processor has waited, ready to run.

    0 where the kernel does not count that. Of a process with threads, its first.
    """
    waited_ns = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            waited_ns = max(waited_ns, int(_read(f"/proc/{pid}/schedstat").split()[1]))
    return waited_ns / 1e9


def kill_all(
    pid: int,
    *,
    within_s: float = KILL_WITHIN_S,
    below: Callable[[int], list[int]] = descendants,
) -> bool:
    """Kill every descendant of `pid`, which must be this process, and reap them.

    They are stopped before they are killed, so that none can start another meanwhile; but should
    they start others faster than we stop them, they are killed as they come. False when some are
    still there after `within_s`.
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
    """Take the status of every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def reaped_cpu_s() -> float:
    """CPU time of all children that have been reaped, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reaped_peak_bytes() -> int:
    """The most memory that one reaped process had."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _read(path: str) -> bytes:
    return Path(path).read_bytes()
