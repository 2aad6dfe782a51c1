"""The watchdog: notices that the event loop stood still, and says whose code held it.

A timer beats on the loop. A small thread looks whether the beat is overdue, and only then at what
the loop's thread is doing: the innermost frame of a server's file (an author's or one of ours),
and the instance that it belongs to. When most looks met long calls of one function, that is to
blame; otherwise many short steps were, or a busy machine, and nobody is blamed.

Code that holds the interpreter's lock (a regular expression, a C extension) cannot be seen while
it runs; it is caught as it returns, in the line that called it.
"""

import asyncio
import inspect
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final, Self, final

from palestra.config import ConfigTree
from palestra.server import Endpoint, Server, is_servers_file
from palestra.system import current_pulse

THRESHOLD_S: Final = 0.5
BEAT_S: Final = 0.25
LOOK_S: Final = 0.1
STILL_S: Final = 5.0
"""A block that lasts so long is told while it lasts, and again each time it has doubled."""
NOTICE_EVERY_S: Final = 10.0
UNBLAMED_S: Final = 2.0
"""Thousands of rollouts that begin at once take a moment: that is nothing to warn of."""


def watchdog_threshold_s(tree: ConfigTree) -> float:
    """The setting `watchdog`: from how many seconds on a block is told; 0 turns it off."""
    threshold_s = tree.get("watchdog")
    return THRESHOLD_S if threshold_s is None else float(threshold_s)


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """Where code ran; `server` is the instance, empty when that cannot be told."""

    server: str
    where: str


@dataclass(frozen=True, slots=True)
class Lag:
    """The loop stood still for `lasted_s`. `over`: it runs again."""

    lasted_s: float
    blamed: CodeLocation | None = None
    over: bool = True

    @property
    def message(self) -> str:
        """A sentence: who blocked the loop, for how long, and where."""
        long = f"{self.lasted_s:.1f} s"
        if self.blamed is None:
            return (
                f"the event loop was late by {long}, and no single call held it: "
                "too much at once, or a busy machine"
            )
        server, where = self.blamed.server, self.blamed.where
        if not self.over:
            return f"{server or 'a call'} has been blocking the event loop for {long} in {where}"
        return f"{server or 'a call'} blocked the event loop for {long} in {where}"


def place_of(frame: FrameType, roots: Collection[FrameType] = ()) -> CodeLocation | None:
    """Whose code a thread with this innermost frame runs; None when it is no server's.

    `roots`: the frames that run the loop, which are on the stack whatever runs.
    """
    servers_frame = _servers_frame(frame, roots)
    if servers_frame is None:
        return None
    where = (
        f"{servers_frame.f_code.co_filename}:{servers_frame.f_lineno} {_name(servers_frame.f_code)}"
    )
    return CodeLocation(_instance(servers_frame), where)


def _servers_frame(frame: FrameType | None, roots: Collection[FrameType]) -> FrameType | None:
    """The innermost frame of a server's file."""
    while frame is not None and frame not in roots:
        if is_servers_file(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def _roots_here() -> frozenset[FrameType]:
    """The frames that run the loop: those beyond the coroutines of the task that asks."""
    roots: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # documented, no other way
    while frame is not None:
        if frame.f_code.co_flags & inspect.CO_COROUTINE:
            roots.clear()
        else:
            roots.append(frame)
        frame = frame.f_back
    return frozenset(roots)


def _name(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def _instance(frame: FrameType | None) -> str:
    """The instance whose method called this code."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Endpoint):
            return owner.server
        if isinstance(owner, Server):
            return owner.name
        frame = frame.f_back
    return ""


@dataclass(slots=True)
class _Met:
    """A call that the looks have met; its frame is kept, so that no other gets its identity."""

    frame: FrameType
    place: CodeLocation | None
    times: int = 0


@final
class _Looks:
    """What the looks at one overdue beat have met."""

    def __init__(self, roots: frozenset[FrameType]) -> None:
        self._roots = roots
        self._met: dict[int, _Met] = {}
        self._count = 0

    def look(self, frame: FrameType) -> None:
        culprit = _servers_frame(frame, self._roots) or frame
        meeting = self._met.setdefault(id(culprit), _Met(culprit, None))
        meeting.place = place_of(culprit, self._roots)
        meeting.times += 1
        self._count += 1

    def blamed(self) -> CodeLocation | None:
        """Whose long calls most looks met. A call is long when more than one look met it."""
        times: Counter[tuple[str, CodeType]] = Counter()
        locations: dict[tuple[str, CodeType], CodeLocation] = {}
        for meeting in self._met.values():
            if meeting.place is not None and (meeting.times > 1 or self._count == 1):
                key = (meeting.place.server, meeting.frame.f_code)
                times[key] += meeting.times
                locations[key] = meeting.place
        for key, count in times.most_common(1):
            if 2 * count > self._count:
                return locations[key]
        return None


@final
class Watchdog:
    """Watches the loop that it is entered on; use as an async context manager.

    `on_lag` is called on the loop once a block is over, and from the watchdog's own thread while
    a long one lasts.
    """

    def __init__(
        self,
        on_lag: Callable[[Lag], None],
        *,
        threshold_s: float = THRESHOLD_S,
        still_s: float = STILL_S,
    ) -> None:
        self._on_lag = on_lag
        self._threshold_s = threshold_s
        self._still_s = still_s
        self._due = 0.0
        self._looks: _Looks | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
        self._watched = 0
        self._roots: frozenset[FrameType] = frozenset()
        self._beat_handle: asyncio.TimerHandle | None = None
        self._pulse = current_pulse()

    async def __aenter__(self) -> Self:
        self._watched = threading.get_ident()
        self._roots = _roots_here()
        self._schedule(asyncio.get_running_loop())
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._beat_handle is not None:
            self._beat_handle.cancel()
        self._check()
        self._stopping.set()
        self._thread.join(1.0)
        self._roots = frozenset()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.monotonic() + BEAT_S
        self._beat_handle = loop.call_later(BEAT_S, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._check()
        self._schedule(loop)

    def _check(self) -> None:
        """Tell of the block that made this beat late, if one did."""
        late_s = time.monotonic() - self._due
        looks, self._looks = self._looks, None
        if late_s >= self._threshold_s:
            self._on_lag(Lag(late_s, looks.blamed() if looks is not None else None))

    # On the thread

    def _watch(self) -> None:
        pause_s, due, tell_at_s = BEAT_S, 0.0, self._still_s
        while not self._stopping.wait(pause_s):
            if self._pulse is not None:
                self._pulse.thread_beat()
            if self._due != due:
                due, tell_at_s = self._due, self._still_s
            late_s = time.monotonic() - due
            if late_s < self._threshold_s / 2:
                pause_s = BEAT_S
                continue
            # More rarely, when it lasts: what holds the loop is known by then.
            pause_s = min(BEAT_S, max(LOOK_S, late_s / 20))
            blamed = self._look()
            if late_s >= tell_at_s and self._due == due:
                tell_at_s *= 2
                self._on_lag(Lag(late_s, blamed, over=False))

    def _look(self) -> CodeLocation | None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # documented, no other way
        if frame is None:
            return None
        looks = self._looks = self._looks or _Looks(self._roots)
        looks.look(frame)
        return looks.blamed()


@final
class LagLog:
    """Counts blocks, and tells of them: not more often than is worth reading."""

    def __init__(
        self, notice: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._notice = notice
        self._clock = clock
        self._told_at: float | None = None
        self._told_s = 0.0
        self.count = 0
        self.longest: Lag | None = None

    def __call__(self, lag: Lag) -> None:
        """One more."""
        if lag.blamed is None and lag.lasted_s < UNBLAMED_S:
            return
        if lag.over:
            self.count += 1
            if self.longest is None or lag.lasted_s > self.longest.lasted_s:
                self.longest = lag
        now = self._clock()
        recently = self._told_at is not None and now - self._told_at < NOTICE_EVERY_S
        if recently and lag.over and lag.lasted_s < 2 * self._told_s:
            return
        self._told_at, self._told_s = now, lag.lasted_s
        self._notice(f"warning: {lag.message}")

    def summary(self) -> str:
        """For the end of a run; empty when there was nothing."""
        if self.longest is None:
            return ""
        if self.count == 1:
            return f"the event loop was blocked once: {self.longest.message}"
        return f"the event loop was blocked {self.count} times; the longest: {self.longest.message}"
