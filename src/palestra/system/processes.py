"""Identify processes. The system reuses process ids, so an id alone does not identify a process for
long.

This module uses the standard library only and supports Python 3.8, because a cluster's supervisor
includes a copy of it.
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
"""The value of `born` where the system does not report when a process began."""


@dataclass(frozen=True)
class Process:
    """One process. `boot`: the id of its machine's boot. `born`: when the process began, in ticks
    since the boot.
    """

    host: str
    boot: str
    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """Return the process of this machine that has the id `pid` now. `born` is empty when there
        is none.
        """
        return cls(socket.gethostname(), boot_id(), pid, born_at(pid))

    @classmethod
    def this(cls) -> Process:
        """Return the current process."""
        return cls.of(os.getpid())

    @property
    def is_here(self) -> bool:
        """Whether the process is, or was, on this machine."""
        return self.host == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended. Always False for a process of another
        machine.
        """
        if not self.is_here:
            return False
        return self.boot != boot_id() or not self.born or born_at(self.pid) != self.born


def process_name() -> str:
    """Return a name of the current process for use in file names; see `is_gone`."""
    return f"{_machine()}-{os.getpid()}"


def is_gone(name: str) -> bool:
    """Whether the process whose `process_name` begins the text `name` is known to have ended."""
    machine, _, pid_and_start = name.partition("-")
    pid = pid_and_start.partition("-")[0]
    return machine == _machine() and pid.isdecimal() and not born_at(int(pid))


def _machine() -> str:
    # A digest: names of hosts may be long, and those of files may not.
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def born_at(pid: int) -> str:
    """Return when the process `pid` began, in ticks since the boot; empty when no process has this
    id.
    """
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
    """Return the id of this machine's current boot. Host names are not enough, because they may be
    those of containers.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def signal_name(number: int) -> str:
    """Return the signal's name, such as `SIGSEGV`, or its number for a signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def how_ended(returncode: int) -> str:
    """Return how a process ended: `exit code 3`, `signal SIGKILL`, or `signal 99` for a signal without
    a name.
    """
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"signal {signal_name(-returncode)}"
