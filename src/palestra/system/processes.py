"""Which process it is: numbers are given again, so that one alone names nobody for long.

Standard library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNKNOWN: Final = "?"
"""When a process began, where the system does not tell (macOS)."""


@dataclass(frozen=True)
class Process:
    """One process of this machine. `born`: when it began, in ticks since the boot."""

    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has that number now; `born` is empty when there is none."""
        return cls(pid, born_at(pid))

    @classmethod
    def this(cls) -> Process:
        """The process that asks."""
        return cls.of(os.getpid())

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return bool(self.born) and born_at(self.pid) == self.born


def born_at(pid: int) -> str:
    """When the process of that number began, in ticks since the boot; empty when none runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return UNKNOWN if not Path("/proc/self").exists() and _exists(pid) else ""
    # The second field is a name in brackets and may hold anything; a zombie has ended.
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in {"Z", "X"} else fields[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def boot_id() -> str:
    """Which start of which machine this is: host names alone may be those of containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def signal_name(number: int) -> str:
    """`SIGSEGV`, or `signal 99` for one without a name, as most real-time signals are."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
