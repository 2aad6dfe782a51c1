"""Choose free ports of this node, and find the processes that listen on a port.

A port is free when it can be bound. The supervisor then holds a lock on the port, so no other
supervisor of this user chooses it before the server binds it. Other processes may still take the
port. The nonce detects this: only a server of this job requires it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from palestra.system import lock

TRIES = 200

LOWEST = 20_000
"""The lowest port that is chosen when no range is configured. Below it are well-known services, and
the ports 10,002 to 19,999 of Ray's workers: Ray refuses to start with another port among them.
"""

EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class NoFreePort(Exception):
    """All ports of the range are taken."""


class PortLocks:
    """The ports of this node that one supervisor has locked for its services."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"palestra-ports-{os.getuid()}"
        self._held: dict[int, IO[bytes] | None] = {}

    def choose(self, within: tuple[int, int] | None) -> int:
        """Return a free port, from the range `within` (both ends included) if given. Raises
        NoFreePort.
        """
        for port in _candidates(within):
            if port not in self._held and self._lock(port):
                bound = _bindable(port)
                if bound:
                    return bound
                self._release(port)
        where = f"{within[0]} to {within[1]}" if within else "any"
        raise NoFreePort(f"no free port ({where}) on {socket.gethostname()}")

    def close(self) -> None:
        """Release the locks, so that other supervisors can choose the ports."""
        for port in list(self._held):
            self._release(port)

    def _release(self, port: int) -> None:
        file = self._held.pop(port)
        if file is not None:
            file.close()

    def _lock(self, port: int) -> bool:
        try:
            file = self._lock_file(port)
        except OSError:  # full, or read-only: the port is bound for a look, and the nonce tells
            file = None
        if file is None:
            self._held[port] = None
            return True
        try:
            lock(file)
        except BlockingIOError:
            file.close()
            return False
        self._held[port] = file
        return True

    def _lock_file(self, port: int) -> IO[bytes] | None:
        """Open the lock file of a port. None when the folder belongs to another user: do not write
        into it.
        """
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        stat_of_folder = self._folder.lstat()
        if not stat.S_ISDIR(stat_of_folder.st_mode) or stat_of_folder.st_uid != os.getuid():
            return None
        return (self._folder / str(port)).open("ab")


def _candidates(within: tuple[int, int] | None) -> Iterable[int]:
    if within is not None:
        ports = list(range(within[0], within[1] + 1))
        random.shuffle(ports)
        yield from ports
        return
    # The kernel gives these ports to no other process by itself, such as a sibling's `srun`.
    below = range(LOWEST, _ephemeral_start())
    yield from random.sample(below, min(TRIES, len(below)))
    for _ in range(TRIES):
        with contextlib.closing(socket.socket()) as sock:
            sock.bind(("", 0))
            port = int(sock.getsockname()[1])
        yield port


def _ephemeral_start() -> int:
    """Return the first port that the kernel may give to a process that asks for any; 0 if unknown."""
    try:
        return int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _bindable(port: int) -> int:
    with contextlib.closing(socket.socket()) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("", port))
        except OSError:
            return 0
        return port


def address_here() -> str:
    """Return an address of this node that others can reach; its host name when no route exists."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.1", 9))  # chooses a route and sends nothing
        return str(sock.getsockname()[0])
    return socket.gethostname()


def answered(address: str, port: int) -> bool:
    """Whether any process listens at `address` and `port`, on any node and of any user."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2.0):
        return True
    return False


@dataclass
class Listeners:
    """The processes of this node that listen on a port. `ours`: whether one is ours. `strangers`:
    the process ids of the others.
    """

    ours: bool = False
    strangers: list[int] = field(default_factory=list)


def listeners_on(port: int, mark: str) -> Listeners:
    """Return the processes of this node that listen on `port`.

    `mark`: a NAME=value in the environment of our own processes. Processes that cannot be
    inspected, such as another user's, are left out.
    """
    links = {f"socket:[{inode}]" for inode in _inodes(port)}
    listeners = Listeners()
    if not links:
        return listeners
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not links.isdisjoint(_open_files(process)):
                is_ours = mark.encode() in (process / "environ").read_bytes().split(b"\0")
                listeners.ours = listeners.ours or is_ours
                listeners.strangers += [] if is_ours else [int(process.name)]
    return listeners


def _open_files(process: Path) -> Iterator[str]:
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            yield os.readlink(link)  # noqa: PTH115  # Python 3.8


def _inodes(port: int) -> set[str]:
    inodes = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    inodes.add(columns[9])
    return inodes
