"""Read this process's control groups: the CPU time that it may use, and whether the kernel killed
processes for lack of memory.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def processors_allowed(root: Path = ROOT) -> float | None:
    """Return how many processors our control groups may use; None when there is no limit."""
    limits = [
        quota / period
        for folder in _folders("cpu", root)
        for quota, period in _quotas(folder)
        if quota > 0 and period > 0
    ]
    return min(limits, default=None)


class OomKills:
    """Counts the processes that the kernel kills for lack of memory, from now on.

    It counts processes of our own control group, whether the group or the whole machine ran out of
    memory. Where the groups have no such counter, it counts all processes of the machine.
    """

    def __init__(self, root: Path = ROOT) -> None:
        names = ("memory.events.local", "memory.events", "memory.oom_control")
        counted = [folder / name for folder in _folders("memory", root) for name in names]
        self._path = root / "proc/vmstat"
        for path in counted:
            if _count(path, "oom_kill") is not None:
                self._path = path
                break
        self._before = self._count()

    def any(self) -> bool:
        """Whether the kernel has killed a process since this object was created."""
        return self._count() > self._before

    def _count(self) -> int:
        return _count(self._path, "oom_kill") or 0


def _quotas(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield (quota, period) in microseconds of CPU time per clock time, for cgroup version 2 and
    version 1.
    """
    with contextlib.suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text("ascii").split()
        yield int(quota), int(period)  # "max" is no number
    with contextlib.suppress(OSError, ValueError):
        quota = (folder / "cpu.cfs_quota_us").read_text("ascii")
        period = (folder / "cpu.cfs_period_us").read_text("ascii")
        yield int(quota), int(period)  # -1 is no limit


def _count(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text("ascii").splitlines():
            words = line.split()
            if words[:1] == [name]:
                return int(words[1])
    return None


def _folders(controller: str, root: Path) -> list[Path]:
    """Return our control group's folder and the folders above it, for both versions. Limits of
    every one apply to us.
    """
    folders: list[Path] = []
    for unified, mounted, mount_point in _mounts(controller, root):
        top = root / mount_point.lstrip("/")
        for group in _groups(controller, root, unified=unified):
            folder = top / group.removeprefix(mounted).strip("/")
            # A container may be told the group as the machine sees it, where it has no folder.
            if ".." in folder.parts or not folder.is_dir():
                folder = top
            folders += [folder, *(above for above in folder.parents if above.is_relative_to(top))]
    return folders


def _mounts(controller: str, root: Path) -> Iterator[tuple[bool, str, str]]:
    """Yield the mounts of control groups: whether it is version 2, the group at its top, and its
    path.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/mountinfo").read_text("utf-8").splitlines():
            before, _, after = line.partition(" - ")
            _, _, _, mounted, mount_point, *_ = before.split()
            kind, _, options, *_ = after.split()
            if kind == "cgroup2":
                yield True, mounted.rstrip("/"), mount_point
            elif kind == "cgroup" and controller in options.split(","):
                yield False, mounted.rstrip("/"), mount_point


def _groups(controller: str, root: Path, *, unified: bool) -> Iterator[str]:
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" if unified else controller in controllers.split(","):
                yield path
