"""The pulse of a process: what others can read about it while nothing in it can run.

A block of shared memory holds when its event loop ran last, and which calls of an author's code
are executing now. Code that holds the interpreter's lock stops every thread of its process, but
not another process that reads this block: the guard of a command, or the fleet of a server
process. A second file, beside the block, takes the stacks that `faulthandler` writes.
"""

import asyncio
import contextlib
import faulthandler
import math
import mmap
import os
import signal
import struct
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, final

from palestra.system.parents import die_with_parent, outlive_parent

T = TypeVar("T")

BEAT_S: Final = 0.5
SLOTS: Final = 8
"""Calls of authors' code that are executing at once, each on a thread of its own, that are told."""
_NOTE_BYTES: Final = 1 << 16
_SLOT_BYTES: Final = 1 << 24
"""Pages that nobody has written to take no memory."""
_HEAD_BYTES: Final = 4096

_BEAT = struct.Struct("<d")
_SLOT = struct.Struct("<qddqqq")
_AT_PID, _AT_BEAT, _AT_THREAD_BEAT = 0, 8, 16
LONGEST_TEXT: Final = _SLOT_BYTES - _SLOT.size
"""Bytes that can be told of a call; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Executing:
    """A call that is executing. Times are of `time.monotonic()`, which processes share.

    `native_id` and `ident`: the thread's, as the kernel and as Python's stacks name it.
    """

    text: bytes
    """What whoever entered it said of it."""
    since: float
    deadline: float | None
    native_id: int
    ident: int
    sequence: int
    """Another one for each time that something begins or ends in this place."""


@dataclass(slots=True)
class _Entered:
    """What a thread is executing, and what it goes on with afterwards."""

    slot: int
    text: bytes
    deadline: float
    since: float
    before: "_Entered | None"


@final
class Pulse:
    """One process's block. The process writes it; whoever holds its files reads it."""

    def __init__(self, block: int, stacks: int, *, tie_to_parent: bool = False) -> None:
        """`block` and `stacks`: file descriptors, which this object owns from here on.

        `tie_to_parent`: the process dies with its parent while it executes a call. Code that
        holds the interpreter's lock keeps it from noticing in any other way that its parent has
        gone.
        """
        self._tie_to_parent = tie_to_parent
        self.block = block
        self.stacks = stacks
        self._memory = mmap.mmap(block, _HEAD_BYTES + _NOTE_BYTES + SLOTS * _SLOT_BYTES)
        self._free = list(range(SLOTS - 1, -1, -1))
        self._entered: dict[int, _Entered] = {}

    @classmethod
    def create(cls) -> Self:
        """A block of its own, empty."""
        block = _anonymous_file("palestra-pulse")
        os.ftruncate(block, _HEAD_BYTES + _NOTE_BYTES + SLOTS * _SLOT_BYTES)
        return cls(block, _anonymous_file("palestra-stacks"))

    def close(self) -> None:
        """Let go of the memory and the files."""
        self._memory.close()
        os.close(self.block)
        os.close(self.stacks)

    # Written by the process that is watched

    def begin(self) -> None:
        """Be the process that is watched: it answers requests for its stacks."""
        struct.pack_into("<q", self._memory, _AT_PID, os.getpid())
        faulthandler.register(STACKS_SIGNAL, file=self.stacks, all_threads=True, chain=False)

    def beat(self) -> None:
        """The event loop runs."""
        _BEAT.pack_into(self._memory, _AT_BEAT, time.monotonic())

    def thread_beat(self) -> None:
        """A thread beside the loop runs: nothing holds the interpreter's lock."""
        _BEAT.pack_into(self._memory, _AT_THREAD_BEAT, time.monotonic())

    def rest(self) -> None:
        """The event loop has ended: no beat is to be expected."""
        _BEAT.pack_into(self._memory, _AT_BEAT, 0.0)

    def note(self, text: bytes) -> None:
        """Leave what the reader needs to end this process's work in order."""
        if len(text) <= _NOTE_BYTES - 8:
            at = _HEAD_BYTES
            struct.pack_into("<q", self._memory, at, 0)  # a kill in between leaves no half of it
            self._memory[at + 8 : at + 8 + len(text)] = text
            struct.pack_into("<q", self._memory, at, len(text))

    def enter(self, text: bytes, deadline: float | None) -> None:
        """Tell that this thread begins to execute the call that `text` describes."""
        ident = threading.get_ident()
        before = self._entered.get(ident)
        if before is not None:
            slot = before.slot
        else:
            try:
                slot = self._free.pop()
            except IndexError:
                slot = -1
            if self._tie_to_parent:
                die_with_parent()
        limit = math.inf if deadline is None else deadline
        entered = _Entered(slot, text, limit, time.monotonic(), before)
        self._entered[ident] = entered
        self._write(entered, ident)

    def leave(self) -> None:
        """Tell that this thread goes on with what it did before `enter`."""
        ident = threading.get_ident()
        left = self._entered.pop(ident)
        if left.before is not None:
            self._entered[ident] = left.before
            self._write(left.before, ident)
            return
        if self._tie_to_parent:
            outlive_parent()
        if left.slot >= 0:
            self._clear(left.slot)
            self._free.append(left.slot)

    def _write(self, entered: _Entered, ident: int) -> None:
        if entered.slot < 0:
            return
        at = _slot_at(entered.slot)
        text = entered.text[:LONGEST_TEXT]
        [sequence] = struct.unpack_from("<q", self._memory, at)
        sequence += 1 + sequence % 2
        struct.pack_into("<q", self._memory, at, sequence)  # odd: being written
        self._memory[at + _SLOT.size : at + _SLOT.size + len(text)] = text
        native_id = threading.get_native_id()
        fields = (entered.since, entered.deadline, native_id, ident, len(text))
        _SLOT.pack_into(self._memory, at, sequence, *fields)
        struct.pack_into("<q", self._memory, at, sequence + 1)

    def _clear(self, slot: int) -> None:
        at = _slot_at(slot)
        [sequence] = struct.unpack_from("<q", self._memory, at)
        struct.pack_into("<q", self._memory, at, sequence + 1)  # odd: there is nothing to read

    # Read by another process

    @property
    def pid(self) -> int:
        """The process that is watched; 0 before it has begun."""
        return int(struct.unpack_from("<q", self._memory, _AT_PID)[0])

    @property
    def last_beat(self) -> float | None:
        """When the loop ran last; None while none is to be expected."""
        return float(_BEAT.unpack_from(self._memory, _AT_BEAT)[0]) or None

    @property
    def last_thread_beat(self) -> float | None:
        """When a thread ran last; None before the first."""
        return float(_BEAT.unpack_from(self._memory, _AT_THREAD_BEAT)[0]) or None

    def noted(self) -> bytes:
        """What the process left with `note`; empty when it has not."""
        [length] = struct.unpack_from("<q", self._memory, _HEAD_BYTES)
        return self._memory[_HEAD_BYTES + 8 : _HEAD_BYTES + 8 + length]

    def executing(self) -> list[Executing]:
        """The calls that are executing now; one that just begins or ends may be missing."""
        readings = (self._read(slot) for slot in range(SLOTS))
        return [reading for reading in readings if reading is not None]

    def _read(self, slot: int) -> Executing | None:
        at = _slot_at(slot)
        sequence, since, deadline, native_id, ident, length = _SLOT.unpack_from(self._memory, at)
        if not length or sequence % 2:
            return None
        text = self._memory[at + _SLOT.size : at + _SLOT.size + length]
        if struct.unpack_from("<q", self._memory, at)[0] != sequence:
            return None
        limit = None if math.isinf(deadline) else deadline
        return Executing(text, since, limit, native_id, ident, sequence)

    def stack_text(self) -> str:
        """What `faulthandler` has written since the last `forget_stacks`."""
        size = os.fstat(self.stacks).st_size
        return os.pread(self.stacks, min(size, 1 << 20), 0).decode("utf-8", "replace")

    def forget_stacks(self) -> None:
        """Make room for the next dump."""
        os.ftruncate(self.stacks, 0)
        os.lseek(self.stacks, 0, os.SEEK_SET)


STACKS_SIGNAL: Final = signal.SIGRTMIN + 4 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""On which a watched process writes the stacks of its threads: whatever holds its lock, as the
handler is no Python."""


def _slot_at(slot: int) -> int:
    return _HEAD_BYTES + _NOTE_BYTES + slot * _SLOT_BYTES


def _anonymous_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_current: ContextVar[Pulse | None] = ContextVar("palestra_pulse", default=None)


def current_pulse() -> Pulse | None:
    """The pulse of this process; None when nobody watches it."""
    return _current.get()


def make_current(pulse: Pulse) -> None:
    """Write `pulse` as this process's own until it ends."""
    pulse.begin()
    _current.set(pulse)


@contextlib.contextmanager
def watched_by(pulse: Pulse) -> Iterator[None]:
    """Write `pulse` as this process's own while the body runs."""
    pulse.begin()
    token = _current.set(pulse)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Let the current pulse show that this event loop runs, while the body runs on it."""
    pulse = current_pulse()
    if pulse is None:
        yield
        return
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle

    def beat() -> None:
        nonlocal handle
        pulse.beat()
        handle = loop.call_later(BEAT_S, beat)

    beat()
    try:
        yield
    finally:
        handle.cancel()
        pulse.rest()


@final
class Driven:
    """A coroutine of an author's, told to the pulse whenever it executes, and only then."""

    __slots__ = ("_coroutine", "_deadline", "_pulse", "_text")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        pulse: Pulse,
        text: bytes,
        deadline: float | None,
    ) -> None:
        self._coroutine = coroutine
        self._pulse = pulse
        self._text = text
        self._deadline = deadline

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Go on with `value`."""
        self._pulse.enter(self._text, self._deadline)
        try:
            return self._coroutine.send(value)
        finally:
            self._pulse.leave()

    def throw(self, *error: Any) -> Any:
        """Go on with an exception."""
        self._pulse.enter(self._text, self._deadline)
        try:
            return self._coroutine.throw(*error)
        finally:
            self._pulse.leave()

    def close(self) -> None:
        """Give up."""
        self._coroutine.close()
