"""The watchdog: it notices that the event loop stood still, and reports whose code blocked it.

A timer on the loop sets a beat. A small thread checks whether the beat is overdue, and if so
samples the loop's thread: the innermost frame in a server's file (an author's or Palestra's), and
the instance that it belongs to. When most samples show long calls of one function, this function is
blamed. Otherwise many short steps or a busy machine were the cause, and no function is blamed.

Code that holds the interpreter's lock (a regular expression, a C extension) cannot be sampled while
it runs. It is sampled when it returns, at the line that called it.
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
from palestra.server import AuthorMethod, Endpoint, Server, is_servers_file
from palestra.system import current_pulse

THRESHOLD_S: Final = 0.5
BEAT_S: Final = 0.25
LOOK_S: Final = 0.1
STILL_S: Final = 5.0
"""A block of this many seconds is reported while it lasts, and again each time its length has
doubled."""
NOTICE_EVERY_S: Final = 10.0
UNBLAMED_S: Final = 2.0
"""A shorter block that no single function caused is not reported: thousands of rollouts that start
at once take a moment."""


def watchdog_threshold_s(tree: ConfigTree) -> float:
    """Return the setting `watchdog`: the length in seconds from which a block is reported. 0 turns
    the watchdog off.
    """
    threshold_s = tree.get("watchdog")
    return THRESHOLD_S if threshold_s is None else float(threshold_s)


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A place in code. `server`: the instance that ran it; empty when unknown."""

    server: str
    where: str


@dataclass(frozen=True, slots=True)
class Lag:
    """The event loop stood still for `lasted_s` seconds. `over`: the loop runs again."""

    lasted_s: float
    blamed: CodeLocation | None = None
    over: bool = True

    @property
    def message(self) -> str:
        """A sentence: which code blocked the loop, for how long, and where."""
        long = f"{self.lasted_s:.1f} s"
        if self.blamed is None:
            return (
                f"the event loop was late by {long}, but no single call blocked it: too many "
                "calls at once, a busy machine, or a process that was stopped"
            )
        server, where = self.blamed.server, self.blamed.where
        if not self.over:
            return f"{server or 'a call'} has been blocking the event loop for {long} in {where}"
        return f"{server or 'a call'} blocked the event loop for {long} in {where}"


def place_of(frame: FrameType, roots: Collection[FrameType] = ()) -> CodeLocation | None:
    """Return the place of the server's code that a thread runs, found from its innermost frame
    `frame`. None when no server's code is on the stack.

    `roots`: the frames that run the event loop. The search stops at them.
    """
    servers_frame = _servers_frame(frame, roots)
    if servers_frame is None:
        return None
    where = (
        f"{servers_frame.f_code.co_filename}:{servers_frame.f_lineno} {_name(servers_frame.f_code)}"
    )
    return CodeLocation(_instance(servers_frame), where)


def _servers_frame(frame: FrameType | None, roots: Collection[FrameType]) -> FrameType | None:
    """Return the innermost frame in a server's file, or None."""
    while frame is not None and frame not in roots:
        if is_servers_file(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def _roots_here() -> frozenset[FrameType]:
    """Return the frames that run the event loop: those outside the coroutines of the current task."""
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
    """Return the name of the instance that runs this code, or whose endpoint called it."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, AuthorMethod | Endpoint):
            return owner.server
        if isinstance(owner, Server):
            return owner.name
        frame = frame.f_back
    return ""


@dataclass(slots=True)
class _Met:
    """A call that samples have found. Its frame is kept, so that no other frame gets the same `id`."""

    frame: FrameType
    place: CodeLocation | None
    times: int = 0


@final
class _Looks:
    """The samples taken during one overdue beat."""

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
        """Return the function whose long calls make up more than half of the samples, or None. A
        call is long when several samples show it.
        """
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
    """Watches the event loop on which it is entered. Use it as an async context manager.

    `on_lag` is called on the loop when a block is over, and from the watchdog's own thread while a
    long block lasts.
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
        """Report the block that made this beat late, if it was long enough."""
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
            blamed = self._check_loop()
            if late_s >= tell_at_s and self._due == due:
                tell_at_s *= 2
                self._on_lag(Lag(late_s, blamed, over=False))

    def _check_loop(self) -> CodeLocation | None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # documented, no other way
        if frame is None:
            return None
        looks = self._looks = self._looks or _Looks(self._roots)
        looks.look(frame)
        return looks.blamed()


@final
class LagLog:
    """Counts blocks and reports them, at most one every `NOTICE_EVERY_S` seconds unless a block is
    much longer.
    """

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
        """Count one more block, and report it if it is worth a warning."""
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
        """Return a sentence for the end of a run; empty when the loop was never blocked."""
        if self.longest is None:
            return ""
        if self.count == 1:
            return f"the event loop was blocked once: {self.longest.message}"
        return f"the event loop was blocked {self.count} times; the longest: {self.longest.message}"
