"""One writer for each shard: a file that names the job that writes, and who came before it.

A lease is taken over only when its holder is known to be gone: its process, when it ran on this
very machine; else when Slurm says so of its job and its heartbeat has stopped as well, since a
node that Slurm has lost may go on. Whoever finds that its lease is another's stops writing.

Leases are numbered. Taking number n begins with creating the file `….n`, which succeeds once,
and ends with putting the new lease in place; who comes too late sees a higher number there.
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
"""A holder that has not shown itself for so long writes no more: it also looks before it beats."""
CHECK_S = 1.0
"""How often a main step looks whether it may still write: see `LeaseWatch`."""
STOPS_S = 10.0
"""Within which the main step of a holder that is gone has seen so, and has stopped.

Its supervisor can be gone and it not: a killed slurmd leaves the steps of its jobs behind."""
WAIT_S = 90.0
"""How long a holder that is about to end is waited for."""


class LeaseHeld(Exception):
    """Another job writes this shard, or may."""


@dataclass(frozen=True)
class Holder:
    """Who writes. `job_id` is empty without a queue; `born`: when the process began, in ticks."""

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
        """The holder that this process is, for a job of that id (of Slurm's; else empty)."""
        return cls(job_id, restart, **asdict(Process.this()))

    @classmethod
    def read(cls, path: Path) -> Holder | None:
        """Who is named in a file; None when there is none."""
        fields = read_object(path)
        if fields is None:
            return None
        try:
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except (KeyError, TypeError):
            return None

    def said(self) -> str:
        """For messages."""
        job = f"job {self.job_id} (start {self.restart})" if self.job_id else "a job"
        return f"{job}, process {self.pid} on {self.host}"


class Lease:
    """The right to write one shard. `is_gone` asks the queue about a job's id."""

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
        """Take the lease, waiting a bounded time for a holder that is ending.

        Raises LeaseHeld when somebody else has it or may have it, and what `is_gone` raises.
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
                    f"{self._path.name} is held by {current.said() if current else '?'}: {why}; "
                    f"if that is certain to have ended, remove {self._path}"
                )
            self._sleep(1.0)

    @property
    def number(self) -> int:
        """Of this lease; 0 when it was never taken."""
        return self._mine.number if self._mine is not None else 0

    def release(self, *, stopped: bool = True) -> None:
        """Give it back; nobody has to wait for us then.

        Unless it is not certain that the main step has `stopped`: a step of Slurm's that had to be
        ended may go on where its node's daemon is gone. Then whoever comes next gives it time.
        """
        self._stop.set()
        if self._beating is not None:
            self._beating.join()
        if stopped and self._mine is not None and not self.lost.is_set() and self._is_mine():
            write_object(self._path, {**asdict(self._mine), "released": True})
        self._mine = None

    def _current(self) -> Holder | None:
        """The holder, or one that died while it was taking the lease over."""
        current = Holder.read(self._path)
        claimed = Holder.read(self._claim_of((current.number if current else 0) + 1))
        return claimed or current

    def _alive(self, holder: Holder) -> str:
        """Why a holder may still write; empty when it is known not to."""
        if (holder.host, holder.boot) == (self._me.host, self._me.boot):
            alive = born_at(holder.pid) == holder.born
            return "its process is alive" if alive else ""
        if not holder.job_id:
            return "it ran on another machine, where nobody can look"
        restarted = holder.job_id == self._me.job_id and holder.restart < self._me.restart
        if not restarted and (self._is_gone is None or not self._is_gone(holder.job_id)):
            return "its job has not ended"
        return "" if self._silent() else "its job has ended, but it still writes"

    def _silent(self) -> bool:
        """Whether no heartbeat comes for long enough. Of two clocks no one is compared."""
        before = _beats(self._path)
        deadline = time.monotonic() + self._silent_after_s
        while time.monotonic() < deadline:
            self._sleep(min(1.0, self._silent_after_s / 4))
            if _beats(self._path) != before:
                return False
        return True

    def _claim(self, number: int) -> bool:
        """Take lease `number`; False when somebody else was faster."""
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
    """For a main step: whether the supervisor that started it still has the lease, and lives."""

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
        """Why nothing may be written any more; empty while it may."""
        try:
            holder, beats = Holder.read(self._path), _beats(self._path)
        except OSError:  # the file system hangs or is gone for a while: as if nothing was heard
            holder, beats = None, self._beats
        if holder is not None and holder.number != self._number:
            return f"{holder.said()} has taken this shard over"
        if beats != self._beats:
            self._beats, self._heard = beats, self._clock()
        silent_s = self._clock() - self._heard
        return f"no word of the supervisor for {silent_s:.0f} s" * (silent_s > self._silent_after_s)


def _beats(path: Path) -> Mapping[str, Any]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return {}
    return {"inode": stat.st_ino, "modified": stat.st_mtime_ns}
