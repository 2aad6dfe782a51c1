"""Parents and children among processes, where the kernel helps (Linux).

Standard library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
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
    """Have the kernel send signal `by` to this process when its parent ends, where it can."""
    _prctl(_PR_SET_PDEATHSIG, by)


def outlive_parent() -> None:
    """Take `die_with_parent` back."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def become_subreaper() -> bool:
    """Have the kernel make orphans among our descendants our children; False where it cannot."""
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
    """The processes whose parent is `pid`; empty where the system does not tell."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text("ascii").split())
    return children
