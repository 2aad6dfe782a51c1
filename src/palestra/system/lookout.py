"""Decide from readings of a process's pulse whether the process is stuck, and on which call.

A process is quiet while its event loop does not run. Only time in which the watcher itself ran
counts. So a process is not called stuck because the machine slept, or because a terminal stopped
both processes.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from palestra.system.pulse import STACKS_SIGNAL, Executing, Pulse

LOOK_EVERY_S: Final = 0.25
LONGEST_STEP_S: Final = 1.0
"""The most seconds that one reading adds to a quiet time. Readings are more frequent, except when
the watcher was stopped."""
GRACE_S: Final = 2.0
"""The seconds to wait for a call that blocks the event loop: after its rollout's deadline, or after
the call's own beginning if that was later."""
STACKS_WITHIN_S: Final = 0.5
STACKS_PAUSE_S: Final = 0.05
"""The stacks are complete when nothing new has come for this many seconds."""


@dataclass(slots=True)
class _Look:
    sequence: int
    seen_s: float = 0.0


@final
class Lookout:
    """Decides from readings of one process's pulse whether it is stuck."""

    def __init__(self) -> None:
        self.quiet_s = 0.0
        """How long the loop has not run; 0 while no beat is to be expected."""
        self._looked_at: float | None = None
        self._beat: float | None = None
        self._seen: dict[int, _Look] = {}
        self._executing: list[Executing] = []

    def look(self, now: float, last_beat: float | None, executing: Iterable[Executing]) -> None:
        """Record one reading. `now`: its `time.monotonic()` value."""
        step_s = 0.0 if self._looked_at is None else min(now - self._looked_at, LONGEST_STEP_S)
        self._looked_at = now
        same = last_beat is not None and last_beat == self._beat
        self.quiet_s = self.quiet_s + step_s if same else 0.0
        self._beat = last_beat
        self._executing = list(executing)
        before, self._seen = self._seen, {}
        for call in self._executing:
            sighting = before.get(call.ident)
            if sighting is None or sighting.sequence != call.sequence:
                sighting = _Look(call.sequence)
            else:
                sighting.seen_s += step_s
            self._seen[call.ident] = sighting

    @property
    def executing(self) -> list[Executing]:
        """The calls that were executing at the last reading, the longest first."""
        return sorted(self._executing, key=lambda call: call.since)

    def overdue(self) -> list[Executing]:
        """Return the calls that block the event loop after their rollouts' deadlines, the longest
        first.
        """
        now = self._looked_at
        if now is None or self.quiet_s < GRACE_S:
            return []
        return [
            call
            for call in self.executing
            if call.deadline is not None
            and now >= call.deadline + GRACE_S
            and self._seen[call.ident].seen_s >= GRACE_S
        ]


def running_one(pid: int, calls: list[Executing]) -> Executing | None:
    """Return the call whose thread is running on a processor; the first call when this is unknown."""
    for call in calls:
        if _state(Path(f"/proc/{pid}/task/{call.native_id}/stat")) == "R":
            return call
    return calls[0] if calls else None


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process (SIGSTOP, Ctrl-Z)."""
    return _state(Path(f"/proc/{pid}/stat")) in {"T", "t"}


def _state(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):  # it has ended, or this system tells nothing
        return ""


def ask_for_stacks(pulse: Pulse) -> Iterator[float]:
    """Request the stacks of the watched process's threads.

    Yields seconds to wait, until the stacks are complete or the time for them is over.
    """
    pulse.forget_stacks()
    pid = pulse.pid
    if not pid:
        return  # it has not begun; a signal to 0 would go to this process and its whole group
    with contextlib.suppress(OSError):
        os.kill(pid, STACKS_SIGNAL)
    deadline, before = time.monotonic() + STACKS_WITHIN_S, ""
    while time.monotonic() < deadline:
        yield STACKS_PAUSE_S
        text = pulse.stack_text()
        if text and text == before:
            return
        before = text
