"""How much memory is left, and whether the kernel has killed processes because memory ran out.

Read from the cgroup (version 2 or 1), the machine and this process's own limit. Values that cannot
be read are ignored.
"""

import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

MIB: Final = 1024 * 1024
_NO_LIMIT: Final = 1 << 60
"""cgroups of version 1 write "no limit" as a number near 2^63."""


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """The memory left under the tightest limit: `left` bytes of `limit`."""

    left: int
    limit: int
    where: str

    @property
    def share(self) -> float:
        """The fraction of the limit that is left, from 0 to 1."""
        return max(0.0, self.left / self.limit) if self.limit else 1.0


@final
class Memory:
    """The memory information of this machine. `root`: the folder that contains `proc` and `sys`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def room(self) -> MemoryRoom | None:
        """Return the tightest limit of cgroup, machine and process; None when none can be read."""
        rooms = [room for room in (self._cgroup(), self._machine(), self._rlimit()) if room]
        return min(rooms, key=lambda room: room.share, default=None)

    def oom_kills(self, pids: Iterable[int | None] = ()) -> dict[str, int]:
        """Return how many processes the kernel has killed because memory ran out, by counter.

        The counters are those of the cgroups of this process and of `pids`, and of the whole
        machine.
        """
        counts: dict[str, int] = {}
        for folder in {self._folder("self"), *(self._folder(str(pid)) for pid in pids if pid)}:
            if folder is None:
                continue
            for name in ("memory.events", "memory.oom_control"):
                count = _field(folder / name, "oom_kill")
                if count is not None:
                    counts[f"cgroup {folder}"] = count
        machine = _field(self._root / "proc/vmstat", "oom_kill")
        if machine is not None:
            counts["this machine"] = machine
        return counts

    def _cgroup(self) -> MemoryRoom | None:
        folder = self._folder("self")
        if folder is None:
            return None
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is None or used is None or limit >= _NO_LIMIT:
            return None
        cached = _field(folder / "memory.stat", "inactive_file") or 0
        return MemoryRoom(limit - used + cached, limit, "its cgroup")

    def _machine(self) -> MemoryRoom | None:
        meminfo = self._root / "proc/meminfo"
        total, available = _field(meminfo, "MemTotal:"), _field(meminfo, "MemAvailable:")
        if total is None or available is None:
            return None
        return MemoryRoom(available * 1024, total * 1024, "this machine")

    def _rlimit(self) -> MemoryRoom | None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = _field(self._root / "proc/self/status", "VmSize:")
        if limit == resource.RLIM_INFINITY or used is None:
            return None
        return MemoryRoom(limit - used * 1024, limit, "the address space limit (ulimit -v)")

    def _folder(self, process: str) -> Path | None:
        """Return the folder of a process's memory cgroup; None when there is none."""
        for line in _lines(self._root / "proc" / process / "cgroup"):
            number, _, controllers_and_path = line.partition(":")
            controllers, _, path = controllers_and_path.partition(":")
            base = self._root / "sys/fs/cgroup"
            if "memory" in controllers.split(","):
                base /= "memory"
            elif number != "0" or controllers:
                continue
            # In a container the path may be the host's, and its own group is at the top.
            for folder in (base / path.lstrip("/"), base):
                if any((folder / name).exists() for name in ("memory.events", "memory.stat")):
                    return folder
        return None


@final
@dataclass
class MemoryGuard:
    """Detects when there is too little memory to start another rollout. Checks every `every_s`
    seconds.
    """

    reserve: float
    memory: Memory
    clock: Callable[[], float]
    every_s: float = 0.25
    _looked: float = field(default=float("-inf"), init=False)
    _low: str = field(default="", init=False)

    def low(self) -> str:
        """Return why no rollout should start; "" when there is enough memory."""
        if not self.reserve:
            return ""
        now = self.clock()
        if now - self._looked >= self.every_s:
            self._looked = now
            room = self.memory.room()
            tight = room is not None and room.share < self.reserve
            self._low = _room_text(room, self.reserve) if tight and room is not None else ""
        return self._low


def _room_text(room: MemoryRoom, reserve: float) -> str:
    return (
        f"memory: {room.left // MIB} MiB of {room.limit // MIB} MiB are left in {room.where}, "
        f"less than the {reserve:.0%} kept back"
    )


def gone(pid: int, root: Path = Path("/")) -> bool:
    """Whether a process of this machine has ended, even if its parent has not noticed yet."""
    stat_lines = _lines(root / "proc" / str(pid) / "stat")
    # "pid (name) state …", and a name may hold anything, a bracket included.
    return not stat_lines or stat_lines[0].rpartition(")")[2].split()[:1] == ["Z"]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdecimal() else None


def _field(path: Path, name: str) -> int | None:
    for line in _lines(path):
        parts = line.split()
        if len(parts) > 1 and parts[0] == name and parts[1].isdecimal():
            return int(parts[1])
    return None
