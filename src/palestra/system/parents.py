"""Parents and children among processes, where the kernel helps (Linux)."""

import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, where the kernel can."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def outlive_parent() -> None:
    """Take `die_with_parent` back."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def become_subreaper() -> None:
    """Have the kernel make orphans among this process's descendants its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    library = _c_library()
    if library is not None:
        library.prctl(option, value)


@cache
def _c_library() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None)


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`; empty where the system does not tell."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text("ascii").split())
    return children
