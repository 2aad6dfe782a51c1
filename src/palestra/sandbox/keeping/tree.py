"""The processes under one keeper: which they are, what they use, and the end of all of them."""

import contextlib
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
KILL_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Use:
    """What a tree uses at one moment. `memory_bytes` counts a shared page once."""

    processes: int
    cpu_s: float
    memory_bytes: int


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, parents first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


def children(pid: int) -> list[int]:
    """The living children of a process."""
    tasks = f"/proc/{pid}/task"
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):  # noqa: PTH208  # called twenty times a second
            with contextlib.suppress(OSError):
                found += map(int, _read(f"{tasks}/{task}/children").split())
    return found


def measure(pids: list[int], *, memory_limit_bytes: int) -> Use:
    """What the processes use. Memory is looked at closely only when it may exceed the limit."""
    ticks = pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # what follows the name, which may hold spaces and brackets itself
            fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    cpu_s = ticks / TICKS_PER_S
    memory_bytes = pages * PAGE_BYTES
    if memory_bytes > memory_limit_bytes:
        memory_bytes = sum(map(_proportional_bytes, pids))
    return Use(len(pids), cpu_s, memory_bytes)


def _proportional_bytes(pid: int) -> int:
    """What the process holds, each shared page divided among those that share it."""
    with contextlib.suppress(OSError, ValueError):
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def kill_all(pid: int) -> bool:
    """Kill every descendant of `pid`, which must be this process, and reap them.

    They are stopped before they are killed, so that none can start another meanwhile. False when
    some are still there after ten seconds.
    """
    deadline = time.monotonic() + KILL_WITHIN_S
    while (living := descendants(pid)) and time.monotonic() < deadline:
        stopped: set[int] = set()
        while fresh := [child for child in living if child not in stopped]:
            _signal(fresh, signal.SIGSTOP)
            stopped.update(fresh)
            living = descendants(pid)
        _signal(living, signal.SIGKILL)
        reap()
        if descendants(pid):
            time.sleep(0.002)
    return not living


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
