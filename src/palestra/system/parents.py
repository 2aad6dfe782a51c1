"""Parents and children among processes, where the kernel helps (Linux)."""

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, where the kernel can."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def become_subreaper() -> None:
    """Have the kernel make orphans among this process's descendants its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(option, value)


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`; empty where the system does not tell."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text("ascii").split())
    return found
