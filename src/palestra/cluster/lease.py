"""One writer for each shard, by a lease file that names the job that may write.

A job takes a lease over only when the holder is known to be gone. If the holder ran on this
machine, its process must be gone. Otherwise Slurm must report its job as ended and its heartbeat
must have stopped, since a node that Slurm has lost may go on working. A process that finds its
lease taken over stops writing.

Leases have numbers. To take lease n, a process first creates the file `….n`, which only one can do,
and then replaces the lease file. A process that comes too late finds a higher number there.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palestra.cluster.records import read_object, write_object
from palestra.system import Process, born_at, create_whole

HEARTBEAT_S = 5.0
SILENT_AFTER_S = 6 * HEARTBEAT_S
"""A holder without a heartbeat for this time does not write any more: before each heartbeat, it
checks that the lease is still its own."""
CHECK_S = 1.0
"""The time between two checks of a main step that it may still write: see `LeaseWatch`."""
STOPS_S = 10.0
"""Within this time, a main step notices that its supervisor is gone, and stops.

It can outlive its supervisor: a killed slurmd leaves the steps of its jobs behind.
"""
WAIT_S = 90.0
"""How long `take` waits for a holder that is ending."""


class LeaseHeld(Exception):
    """Another job holds the lease of this shard, or may still hold it."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease.

    `job_id`: empty without a queue. `born`: the start time of the process, in clock ticks.
    """

    job_id: str
    restart: int
    host: str
    boot: str
    pid: int
    born: str
    number: int = 0
    released: bool = False

    @classmethod
    def me(cls, job_id: str, restart: int) -> Holder:
        """Return this process as a holder of the lock. `job_id`: its Slurm job; empty without Slurm."""
        return cls(job_id, restart, **asdict(Process.this()))

    @classmethod
    def read(cls, path: Path) -> Holder | None:
        """Read the holder named in a lease file. None when the file is missing or invalid."""
        fields = read_object(path)
        if fields is None:
            return None
        try:
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except (KeyError, TypeError):
            return None

    def said(self) -> str:
        """Return a text for messages: the job, the process and the host."""
        job = f"job {self.job_id} (start {self.restart})" if self.job_id else "a job"
        return f"{job}, process {self.pid} on {self.host}"


class Lease:
    """The right to write one shard. `is_gone`: whether the queue reports a job id as ended."""

    def __init__(
        self,
        path: Path,
        me: Holder,
        *,
        is_gone: Callable[[str], bool] | None,
        report: Callable[[str], None] = print,
        wait_s: float = WAIT_S,
        silent_after_s: float = SILENT_AFTER_S,
        stops_s: float = STOPS_S,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._path = path
        self._me = me
        self._is_gone = is_gone
        self._say = report
        self._wait_s = wait_s
        self._silent_after_s = silent_after_s
        self._stops_s = stops_s
        self._sleep = sleep
        self._mine: Holder | None = None
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None
        self.lost = threading.Event()
        """Another has taken this lease over: whoever writes under it must stop at once."""

    def take(self) -> None:
        """Take the lease. Wait a limited time for a holder that is ending.

        Raises LeaseHeld: another process holds the lease or may hold it. Errors of `is_gone` pass
        through.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            current = self._current()
            why = "" if current is None or current.released else self._alive(current)
            if not why and self._claim((current.number if current else 0) + 1):
                self._beating = threading.Thread(target=self._beat, daemon=True, name="lease")
                self._beating.start()
                if current is not None and not current.released:
                    self._sleep(self._stops_s)
                return
            if why and time.monotonic() > deadline:
                raise LeaseHeld(
                    f"the lock {self._path.name} belongs to "
                    f"{current.said() if current else '?'}: {why}; if that job has certainly "
                    f"ended, remove {self._path}"
                )
            self._sleep(1.0)

    @property
    def number(self) -> int:
        """The number of this lease; 0 when it was never taken."""
        return self._mine.number if self._mine is not None else 0

    def release(self, *, stopped: bool = True) -> None:
        """Give the lease back, so that the next holder need not wait.

        `stopped`: whether the main step has certainly ended. If False (a Slurm step may go on where
        its node's daemon is gone), the lease is not marked released, and the next holder waits
        `stops_s`.
        """
        self._stop.set()
        if self._beating is not None:
            self._beating.join()
        if stopped and self._mine is not None and not self.lost.is_set() and self._is_mine():
            write_object(self._path, {**asdict(self._mine), "released": True})
        self._mine = None

    def _current(self) -> Holder | None:
        """Return the holder, or a process that has claimed the next number but not yet taken the
        lease.
        """
        current = Holder.read(self._path)
        claimed = Holder.read(self._claim_of((current.number if current else 0) + 1))
        return claimed or current

    def _alive(self, holder: Holder) -> str:
        """Return why a holder may still write; empty when it certainly does not."""
        if (holder.host, holder.boot) == (self._me.host, self._me.boot):
            alive = born_at(holder.pid) == holder.born
            return "its process is alive" if alive else ""
        if not holder.job_id:
            return "it ran on another machine, so its process cannot be checked from here"
        restarted = holder.job_id == self._me.job_id and holder.restart < self._me.restart
        if not restarted and (self._is_gone is None or not self._is_gone(holder.job_id)):
            return "its job has not ended"
        return "" if self._silent() else "its job has ended, but its process still writes"

    def _silent(self) -> bool:
        """Whether no heartbeat comes for `silent_after_s`. Only this machine's clock measures the
        time.
        """
        before = _beats(self._path)
        deadline = time.monotonic() + self._silent_after_s
        while time.monotonic() < deadline:
            self._sleep(min(1.0, self._silent_after_s / 4))
            if _beats(self._path) != before:
                return False
        return True

    def _claim(self, number: int) -> bool:
        """Take lease `number`. Return False when another process was faster."""
        mine = Holder(**{**asdict(self._me), "number": number})
        claim = self._claim_of(number)
        try:
            create_whole(claim, json.dumps(asdict(mine)).encode())
        except FileExistsError:
            return False
        current = Holder.read(self._path)
        if current is not None and current.number >= number:
            claim.unlink()
            return False
        write_object(self._path, asdict(mine))
        for claim_file in (
            claim,
            self._claim_of(number - 1),
        ):  # who claims these now comes too late
            with contextlib.suppress(FileNotFoundError):
                claim_file.unlink()
        self._mine = mine
        if current is not None and not current.released:
            self._say(f"taking over {self._path.name} from {current.said()}, which is gone")
        return True

    def _claim_of(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _is_mine(self) -> bool:
        return Holder.read(self._path) == self._mine

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            with contextlib.suppress(OSError):  # a file system that hangs or is gone for a while
                if not self._is_mine():
                    self.lost.set()
                    return
                os.utime(self._path)


class LeaseWatch:
    """Checks, inside a main step, that its supervisor is alive and still has the lease."""

    def __init__(
        self,
        path: Path,
        number: int,
        *,
        silent_after_s: float = SILENT_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._number = number
        self._silent_after_s = silent_after_s
        self._clock = clock
        self._beats = _beats(path)
        self._heard = clock()

    def lost(self) -> str:
        """Return why the main step must stop writing; empty while it may go on."""
        try:
            holder, beats = Holder.read(self._path), _beats(self._path)
        except OSError:  # the file system hangs or is gone for a while: as if nothing was heard
            holder, beats = None, self._beats
        if holder is not None and holder.number != self._number:
            return f"{holder.said()} now runs this shard instead"
        if beats != self._beats:
            self._beats, self._heard = beats, self._clock()
        silent_s = self._clock() - self._heard
        return f"the supervisor has written nothing for {silent_s:.0f} s" * (
            silent_s > self._silent_after_s
        )


def _beats(path: Path) -> Mapping[str, Any]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return {}
    return {"inode": stat.st_ino, "modified": stat.st_mtime_ns}
