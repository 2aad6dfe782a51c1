"""Which process it is: numbers are given again, so that one alone names nobody for long.

Standard library only, for Python 3.8 and later: a cluster's supervisor carries this module with it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNKNOWN: Final = "?"
"""When a process began, where the system does not tell."""


@dataclass(frozen=True)
class Process:
    """One process. `boot`: which start of its machine; `born`: when it began, in ticks since then."""

    host: str
    boot: str
    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process of this machine that has that number now; `born` is empty without one."""
        return cls(socket.gethostname(), boot_id(), pid, born_at(pid))

    @classmethod
    def this(cls) -> Process:
        """The process that asks."""
        return cls.of(os.getpid())

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, of this machine."""
        return self.host == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended: of another machine nothing is known."""
        if not self.is_here:
            return False
        return self.boot != boot_id() or not self.born or born_at(self.pid) != self.born


def process_name() -> str:
    """The process that asks, as a part of file names: see `is_gone`."""
    return f"{_machine()}-{os.getpid()}"


def is_gone(name: str) -> bool:
    """Whether the process is known to have ended whose `process_name` the text begins with."""
    machine, _, pid_and_start = name.partition("-")
    pid = pid_and_start.partition("-")[0]
    return machine == _machine() and pid.isdecimal() and not born_at(int(pid))


def _machine() -> str:
    # A digest: names of hosts may be long, and those of files may not.
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def born_at(pid: int) -> str:
    """When the process of that number began, in ticks since the boot; empty when none runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        # Some systems have no such files, or hide those of other users.
        return UNKNOWN if _exists(pid) else ""
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
