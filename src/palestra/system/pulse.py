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
import resource
import signal
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, final

from palestra.system.parents import die_with_parent, outlive_parent

T = TypeVar("T")

BEAT_S: Final = 0.5
SLOTS: Final = 8
"""Calls of authors' code that are executing at once, each on a thread of its own, that are told."""
_HEAD_BYTES: Final = 4096
_SLOT_BYTES: Final = 1 << 24
"""Pages that nobody has written to take no memory."""
_NOTE_BYTES: Final = 1 << 20

_BEAT = struct.Struct("<d")
_SLOT = struct.Struct("<qddqqq")
_AT_PID, _AT_BEAT, _AT_THREAD_BEAT = 0, 8, 16


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
    """One process's block. The process writes it; whoever shares its memory reads it."""

    def __init__(
        self, memory: mmap.mmap, stacks: int, *, note_bytes: int = 0, tie_to_parent: bool = False
    ) -> None:
        """`stacks`: a file descriptor. This object owns both from here on.

        `tie_to_parent`: the process dies with its parent while it executes a call. Code that
        holds the interpreter's lock keeps it from noticing in any other way that its parent has
        gone.
        """
        self._memory = memory
        self._stacks = stacks
        self._note_bytes = note_bytes
        self._tie_to_parent = tie_to_parent
        self._slot_bytes = (len(memory) - _HEAD_BYTES - note_bytes) // SLOTS
        self.longest_text = self._slot_bytes - _SLOT.size
        """Bytes that can be told of a call; the rest is cut off."""
        self._free = list(range(SLOTS))
        """Those that were left longest ago come first."""
        self._texts: list[bytes | None] = [None] * SLOTS
        """What stands in each slot: a coroutine enters with the same text whenever it goes on."""
        self._entered: dict[int, _Entered] = {}
        self._is_forked = False
        """Whether this process is a fork of the one that is watched."""

    @classmethod
    def create(cls) -> Self:
        """Empty, for a child that is forked: it leaves notes as well."""
        size = _HEAD_BYTES + SLOTS * _SLOT_BYTES + _NOTE_BYTES
        return cls(mmap.mmap(-1, size), _anonymous_file("palestra-stacks"), note_bytes=_NOTE_BYTES)

    @classmethod
    @contextlib.contextmanager
    def create_for_program(cls) -> Iterator[tuple[Self, tuple[int, int]]]:
        """Empty, with the descriptors that a program which is started meanwhile opens it by.

        Where files may not become as large (`ulimit -f`), less can be told of a call.
        """
        block, stacks = _anonymous_file("palestra-pulse"), _anonymous_file("palestra-stacks")
        try:
            largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = _HEAD_BYTES + SLOTS * _SLOT_BYTES
            os.ftruncate(block, size if largest == resource.RLIM_INFINITY else min(size, largest))
            pulse = cls(mmap.mmap(block, 0), os.dup(stacks))
            try:
                yield pulse, (block, stacks)
            except BaseException:
                pulse.close()
                raise
        finally:
            os.close(block)
            os.close(stacks)

    @classmethod
    def opened(cls, block: int, stacks: int) -> Self:
        """The one of this process, by the descriptors that its parent has handed to it."""
        memory = mmap.mmap(block, 0)
        os.close(block)
        os.set_inheritable(stacks, False)
        return cls(memory, stacks, tie_to_parent=True)

    def close(self) -> None:
        """Let go of the memory and the file."""
        self._memory.close()
        os.close(self._stacks)

    # Written by the process that is watched

    def begin(self) -> None:
        """Be the process that is watched: it answers requests for its stacks."""
        faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True, chain=False)
        # Not before: the signal ends a process that has no handler of it.
        struct.pack_into("<q", self._memory, _AT_PID, os.getpid())
        leave_to_parent = weakref.WeakMethod(self._leave_to_parent)

        def forked() -> None:
            if (leave := leave_to_parent()) is not None:
                leave()

        os.register_at_fork(after_in_child=forked)

    def _leave_to_parent(self) -> None:
        """What an author forks goes on in the same code, and is not what is watched."""
        self._is_forked = True
        self._texts = [None] * SLOTS

    def beat(self) -> None:
        """The event loop runs."""
        self._write_beat(_AT_BEAT, time.monotonic())

    def thread_beat(self) -> None:
        """A thread beside the loop runs: nothing holds the interpreter's lock."""
        self._write_beat(_AT_THREAD_BEAT, time.monotonic())

    def rest(self) -> None:
        """The event loop has ended: no beat is to be expected."""
        self._write_beat(_AT_BEAT, 0.0)

    def _write_beat(self, at: int, when: float) -> None:
        if not self._is_forked:
            _BEAT.pack_into(self._memory, at, when)

    def note(self, text: bytes) -> None:
        """Leave what the reader needs to end this process's work in order."""
        if self._is_forked:
            return
        at = self._note_at
        struct.pack_into("<q", self._memory, at, 0)  # a kill in between leaves no half of it
        if len(text) <= self._note_bytes - 8:
            self._memory[at + 8 : at + 8 + len(text)] = text
            struct.pack_into("<q", self._memory, at, len(text))

    def enter(self, text: bytes, deadline: float | None) -> None:
        """Tell that this thread begins to execute the call that `text` describes.

        To be forgotten (`forget`) when that call is over.
        """
        ident = threading.get_ident()
        before = self._entered.get(ident)
        if before is not None:
            slot = before.slot
        else:
            slot = self._slot_for(text)
            if self._tie_to_parent:
                die_with_parent()
        limit = math.inf if deadline is None else deadline
        entered = _Entered(slot, text, limit, time.monotonic(), before)
        self._entered[ident] = entered
        self._write(entered, ident)

    def _slot_for(self, text: bytes) -> int:
        """A free slot, if possible the one in which the text stands; -1 where none is free."""
        for slot in self._free:
            if self._texts[slot] is text:
                self._free.remove(slot)
                return slot
        try:
            return self._free.pop(0)
        except IndexError:
            return -1

    def leave(self) -> None:
        """Tell that this thread goes on with what it did before `enter`."""
        ident = threading.get_ident()
        finished = self._entered.pop(ident)
        if finished.before is not None:
            self._entered[ident] = finished.before
            self._write(finished.before, ident)
            return
        if self._tie_to_parent:
            outlive_parent()
        if finished.slot >= 0:
            self._clear(finished.slot)
            self._free.append(finished.slot)

    def forget(self, text: bytes) -> None:
        """Let go of the text of a call that is over; it may be long."""
        for slot, text_in_slot in enumerate(self._texts):
            if text_in_slot is text:
                self._texts[slot] = None

    def _write(self, entered: _Entered, ident: int) -> None:
        if entered.slot < 0 or self._is_forked:
            return
        at = self._slot_at(entered.slot)
        text = entered.text[: self.longest_text]
        [sequence] = struct.unpack_from("<q", self._memory, at)
        sequence += 1 + sequence % 2
        struct.pack_into("<q", self._memory, at, sequence)  # odd: being written
        if self._texts[entered.slot] is not entered.text:
            self._memory[at + _SLOT.size : at + _SLOT.size + len(text)] = text
            self._texts[entered.slot] = entered.text
        native_id = threading.get_native_id()
        fields = (entered.since, entered.deadline, native_id, ident, len(text))
        _SLOT.pack_into(self._memory, at, sequence, *fields)
        struct.pack_into("<q", self._memory, at, sequence + 1)

    def _clear(self, slot: int) -> None:
        if self._is_forked:
            return
        at = self._slot_at(slot)
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
        at = self._note_at
        [length] = struct.unpack_from("<q", self._memory, at)
        return self._memory[at + 8 : at + 8 + length]

    def executing(self) -> list[Executing]:
        """The calls that are executing now; one that just begins or ends may be missing."""
        readings = (self._read(slot) for slot in range(SLOTS))
        return [reading for reading in readings if reading is not None]

    def _read(self, slot: int) -> Executing | None:
        at = self._slot_at(slot)
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
        size = os.fstat(self._stacks).st_size
        return os.pread(self._stacks, min(size, 1 << 20), 0).decode("utf-8", "replace")

    def forget_stacks(self) -> None:
        """Make room for the next dump."""
        os.ftruncate(self._stacks, 0)
        os.lseek(self._stacks, 0, os.SEEK_SET)

    # Where things stand: the head, the slots, the note

    def _slot_at(self, slot: int) -> int:
        return _HEAD_BYTES + slot * self._slot_bytes

    @property
    def _note_at(self) -> int:
        return _HEAD_BYTES + SLOTS * self._slot_bytes


STACKS_SIGNAL: Final = signal.SIGRTMIN + 4 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""On which a watched process writes the stacks of its threads: whatever holds its lock, as the
handler is no Python."""


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
