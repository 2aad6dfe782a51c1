"""Measure what the processes of one program use, at regular intervals."""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from palestra.sandbox.keeping import tree
from palestra.sandbox.keeping.tree import Unreadable

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")
_CHILD_ENDED = 1 << (signal.SIGCHLD - 1)


@dataclass(frozen=True, slots=True)
class Use:
    """What a process tree uses at one moment. `memory_bytes` counts a shared page once."""

    processes: int
    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    own_ticks: int
    reaped_ticks: int
    """CPU ticks of its children that it has waited for."""
    started: int
    pages: int

    @property
    def ticks(self) -> int:
        return self.own_ticks + self.reaped_ticks


class Meter:
    """Measures the given processes, and keeps the CPU time of processes that end.

    `reaped_s`: returns the CPU time of ended processes that we have waited for.
    """

    def __init__(
        self,
        memory_limit_bytes: int,
        *,
        reaped_s: Callable[[], float] = tree.reaped_cpu_s,
        proc: Path = PROC,
    ) -> None:
        self._memory_limit_bytes = memory_limit_bytes
        self._reaped_s = reaped_s
        self._proc = proc
        self._most_s = 0.0
        self._lost_ticks = 0
        self._unmourned: dict[tuple[int, int], tuple[int, int]] = {}
        """Ticks of children, and who their parent is, for which nobody will wait."""
        self.peak_bytes = 0

    def look(self, pids: list[int]) -> Use:
        """Return what the processes `pids` use. Raises `Unreadable` when the kernel does not report
        it.

        Memory is measured exactly only when a first estimate exceeds the limit.
        """
        processes: dict[int, _Process] = {}
        for pid in pids:
            process = self._process(pid)
            if process is not None:
                processes[pid] = process
        self._count_lost(processes)
        memory_bytes = sum(process.pages for process in processes.values()) * PAGE_BYTES
        if memory_bytes > self._memory_limit_bytes:
            memory_bytes = sum(map(self._memory_bytes, pids))
        self.peak_bytes = max(self.peak_bytes, memory_bytes)
        ticks = sum(process.ticks for process in processes.values())
        return Use(len(pids), self._cpu_s(ticks), memory_bytes)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes seen, once none is left."""
        return self._cpu_s(0)

    def _cpu_s(self, living_ticks: int) -> float:
        seen_s = (living_ticks + self._lost_ticks) / TICKS_PER_S + self._reaped_s()
        self._most_s = max(self._most_s, seen_s)
        return self._most_s

    def _count_lost(self, processes: dict[int, _Process]) -> None:
        """Add the CPU time of ended children whose parent ignores SIGCHLD: the kernel does not
        count it anywhere.

        The kernel adds the time of all other children to the process that waits for them.
        """
        heartless = {
            process.parent
            for process in processes.values()
            if process.parent in processes and self._ignores_children(process.parent)
        }
        for (pid, started), (ticks, parent) in self._unmourned.items():
            gone = pid not in processes or processes[pid].started != started
            if gone and parent in processes:
                self._lost_ticks += ticks
        self._unmourned = {
            (pid, process.started): (process.ticks, process.parent)
            for pid, process in processes.items()
            if process.parent in heartless
        }

    def _process(self, pid: int) -> _Process | None:
        """Return the process's numbers from /proc; None when it has ended."""
        content = self._content(pid, "stat")
        if content is None:
            return None
        # what follows the name, which may hold spaces and brackets itself
        fields = content.rpartition(b")")[2].split()
        try:
            used = list(map(int, fields[11:15]))
            return _Process(
                parent=int(fields[1]),
                own_ticks=used[0] + used[1],
                reaped_ticks=used[2] + used[3],
                started=int(fields[19]),
                pages=int(fields[21]),
            )
        except (ValueError, IndexError):
            raise Unreadable(f"/proc/{pid}/stat has an unknown format") from None

    def _memory_bytes(self, pid: int) -> int:
        """Return the memory of a process. Each shared page is divided among the processes that
        share it.

        Some processes and kernels do not report this value. Then all memory that does not belong to
        files counts, and a shared page counts several times.
        """
        with contextlib.suppress(OSError, Unreadable):
            content = self._content(pid, "smaps_rollup")
            memory = _kib(content or b"")
            if b"Pss" in memory:
                return memory[b"Pss"] * 1024
        content = self._content(pid, "status")
        memory = _kib(content or b"")
        if b"RssAnon" in memory:
            return (memory[b"RssAnon"] + memory.get(b"RssShmem", 0)) * 1024
        return memory.get(b"VmRSS", 0) * 1024  # it has none when it has ended

    def _ignores_children(self, pid: int) -> bool:
        with contextlib.suppress(Unreadable, ValueError):
            for line in (self._content(pid, "status") or b"").splitlines():
                if line.startswith(b"SigIgn:"):
                    return bool(int(line.split()[1], 16) & _CHILD_ENDED)
        return False

    def _content(self, pid: int, name: str) -> bytes | None:
        """Read a file of /proc; None when the process has ended."""
        path = self._proc / str(pid) / name
        try:
            return path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError as error:
            raise Unreadable(f"cannot measure what a program uses: {error}") from None


def _kib(content: bytes) -> dict[bytes, int]:
    """Parse lines of the form `Name: number kB`."""
    sizes = {}
    for line in content.splitlines():
        name, _, value = line.partition(b":")
        words = value.split()
        if words[1:] == [b"kB"] and words[0].isdigit():
            sizes[name] = int(words[0])
    return sizes
