"""Parent and child processes, where the kernel supports it (Linux).

This module uses the standard library only and supports Python 3.8, because a cluster's supervisor
includes a copy of it.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with_parent(by: int = signal.SIGKILL) -> None:
    """Let the kernel send signal `by` to this process when its parent ends. Does nothing where the
    kernel cannot.
    """
    _prctl(_PR_SET_PDEATHSIG, by)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def become_subreaper() -> bool:
    """Let the kernel make orphaned descendants children of this process. False where the kernel
    cannot.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    library = _c_library()
    return library is not None and library.prctl(option, value, 0, 0, 0) == 0


@lru_cache(maxsize=None)  # noqa: UP033  # Python 3.8
def _c_library() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None)


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`; empty where the system does not report it."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text("ascii").split())
    return children
