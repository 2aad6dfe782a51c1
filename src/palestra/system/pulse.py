"""The pulse of a process: what other processes can read about it, even while none of its threads
can run.

A block of shared memory holds when the process's event loop ran last, and which calls of an
author's code are executing now. Code that holds the interpreter's lock stops every thread of its
process. It does not stop another process that reads this block: the guard of a command, or the
fleet of a server process. A second file holds the stacks that `faulthandler` writes: on request, and
when a crash or `os._exit` ends the process.
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
from os import _exit
from typing import Any, Final, NoReturn, Self, TypeVar, final

from palestra.system.parents import die_with_parent, outlive_parent

T = TypeVar("T")

BEAT_S: Final = 0.5
SLOTS: Final = 8
"""The maximum number of calls of authors' code that are recorded at the same time, each on its own
thread."""
_HEAD_BYTES: Final = 4096
_SLOT_BYTES: Final = 1 << 24
"""Bytes per slot. Pages that are never written use no memory."""
_NOTE_BYTES: Final = 1 << 20

_FLOAT = struct.Struct("<d")
_SLOT = struct.Struct("<qddqqq")
_AT_PID, _AT_BEAT, _AT_THREAD_BEAT, _AT_STOP = 0, 8, 16, 24


@dataclass(frozen=True, slots=True)
class Executing:
    """A call that is executing. Times are `time.monotonic()` values, which all processes of the
    machine share.

    `native_id` and `ident`: the ids of the call's thread in the kernel and in Python's stacks.
    """

    text: bytes
    """The text with which the call was entered."""
    since: float
    deadline: float | None
    native_id: int
    ident: int
    sequence: int
    """A number that changes each time a call begins or ends in this slot."""


@dataclass(slots=True)
class _Entered:
    """The call that a thread is executing, and the call that it continues afterwards."""

    slot: int
    text: bytes
    deadline: float
    since: float
    before: "_Entered | None"


@final
class Pulse:
    """One process's block of shared memory. The process writes it, and its watcher reads it."""

    def __init__(
        self, memory: mmap.mmap, stacks: int, *, note_bytes: int = 0, tie_to_parent: bool = False
    ) -> None:
        """`memory`: the block. `stacks`: the descriptor of the file for stacks. This object closes
        both.

        `tie_to_parent`: the process dies with its parent while it executes a call. Otherwise code
        that holds the interpreter's lock would keep the process from noticing that its parent has
        ended.
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
        self._writes_crashes = False

    @classmethod
    def create(cls) -> Self:
        """Return an empty pulse for a forked child. It has room for notes."""
        size = _HEAD_BYTES + SLOTS * _SLOT_BYTES + _NOTE_BYTES
        return cls(mmap.mmap(-1, size), _anonymous_file("palestra-stacks"), note_bytes=_NOTE_BYTES)

    @classmethod
    @contextlib.contextmanager
    def create_for_program(cls) -> Iterator[tuple[Self, tuple[int, int]]]:
        """Yield an empty pulse, and the descriptors with which a program that is started in the
        body opens it.

        Where the size of files is limited (`ulimit -f`), texts of calls may be cut shorter.
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
        """Return this process's pulse, opened from the descriptors that its parent passed on."""
        memory = mmap.mmap(block, 0)
        os.close(block)
        os.set_inheritable(stacks, False)
        return cls(memory, stacks, tie_to_parent=True)

    def close(self) -> None:
        """Release the memory and the file."""
        self._memory.close()
        os.close(self._stacks)

    # Written by the process that is watched

    def begin(self) -> None:
        """Make this process the watched one: from now on it writes its stacks on request, and when
        it crashes.
        """
        faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True, chain=False)
        if not faulthandler.is_enabled():  # else somebody wants the crash in another file
            faulthandler.enable(file=self._stacks)
            self._writes_crashes = True
        # Not before: the signal ends a process that has no handler of it.
        struct.pack_into("<q", self._memory, _AT_PID, os.getpid())
        leave_to_parent = weakref.WeakMethod(self._leave_to_parent)

        def forked() -> None:
            if (leave := leave_to_parent()) is not None:
                leave()

        os.register_at_fork(after_in_child=forked)

    def _leave_to_parent(self) -> None:
        """Stop writing in a process that the author's code has forked. Only the original process is
        watched.
        """
        self._is_forked = True
        self._texts = [None] * SLOTS
        if self._writes_crashes:
            faulthandler.disable()

    def exit_at_once(self, status: int) -> NoReturn:
        """End this process as `os._exit` does, and write the stacks of its threads before."""
        # The author's code may have closed the file. The process must end all the same.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            if not self._is_forked:
                os.write(self._stacks, f"{_FATAL_ERROR}{_OS_EXIT}\n\n".encode())
                faulthandler.dump_traceback(file=self._stacks)
        _exit(status)

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._write_float(_AT_BEAT, time.monotonic())

    def thread_beat(self) -> None:
        """Record that a thread outside the event loop runs, so no code holds the interpreter's
        lock.
        """
        self._write_float(_AT_THREAD_BEAT, time.monotonic())

    def rest(self) -> None:
        """Record that the event loop has ended, so no further beat is expected."""
        self._write_float(_AT_BEAT, 0.0)

    def allow_longer_stop(self, seconds: float) -> None:
        """Record that an orderly stop of this process may take so many seconds more than usual."""
        self._write_float(_AT_STOP, seconds)

    def _write_float(self, at: int, value: float) -> None:
        if not self._is_forked:
            _FLOAT.pack_into(self._memory, at, value)

    def note(self, text: bytes) -> None:
        """Leave a note with what the reader needs to end this process's work in order."""
        if self._is_forked:
            return
        at = self._note_at
        struct.pack_into("<q", self._memory, at, 0)  # a kill in between leaves no half of it
        if len(text) <= self._note_bytes - 8:
            self._memory[at + 8 : at + 8 + len(text)] = text
            struct.pack_into("<q", self._memory, at, len(text))

    def enter(self, text: bytes, deadline: float | None) -> None:
        """Record that this thread begins to execute the call that `text` describes.

        Call `forget` when the call is over.
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
        """Return a free slot, preferably the one that already holds the text; -1 when no slot is
        free.
        """
        for slot in self._free:
            if self._texts[slot] is text:
                self._free.remove(slot)
                return slot
        try:
            return self._free.pop(0)
        except IndexError:
            return -1

    def leave(self) -> None:
        """Record that this thread continues with what it did before `enter`."""
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
        """Release the text of a call that is over. The text may be long."""
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
        """The id of the watched process; 0 before `begin`."""
        return int(struct.unpack_from("<q", self._memory, _AT_PID)[0])

    @property
    def last_beat(self) -> float | None:
        """When the event loop ran last; None while no beat is expected."""
        return float(_FLOAT.unpack_from(self._memory, _AT_BEAT)[0]) or None

    @property
    def last_thread_beat(self) -> float | None:
        """When a thread outside the event loop ran last; None before the first beat."""
        return float(_FLOAT.unpack_from(self._memory, _AT_THREAD_BEAT)[0]) or None

    @property
    def longer_stop_s(self) -> float:
        """How many seconds more than usual an orderly stop may take."""
        return float(_FLOAT.unpack_from(self._memory, _AT_STOP)[0])

    def noted(self) -> bytes:
        """Return the text that the process left with `note`; empty when it left none."""
        at = self._note_at
        [length] = struct.unpack_from("<q", self._memory, at)
        return self._memory[at + 8 : at + 8 + length]

    def executing(self) -> list[Executing]:
        """Return the calls that are executing now. A call that just begins or ends may be missing."""
        readings = (self._read_slot(slot) for slot in range(SLOTS))
        return [reading for reading in readings if reading is not None]

    def _read_slot(self, slot: int) -> Executing | None:
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
        """Return what `faulthandler` has written since the last `forget_stacks`."""
        size = os.fstat(self._stacks).st_size
        return os.pread(self._stacks, min(size, 1 << 20), 0).decode("utf-8", "replace")

    def last_stacks(self, returncode: int) -> str:
        """Return the stacks that the process wrote when it crashed or called `os._exit`, and so ended
        with `returncode`. Empty when it wrote none.
        """
        _, mark, stacks = self.stack_text().rpartition(_FATAL_ERROR)
        # A crash of which a handler of the author's code made something else is none.
        is_of_this_end = stacks.startswith(_OS_EXIT) == (returncode >= 0)
        return stacks if mark and is_of_this_end else ""

    def forget_stacks(self) -> None:
        """Empty the file of stacks for the next dump."""
        os.ftruncate(self._stacks, 0)
        os.lseek(self._stacks, 0, os.SEEK_SET)

    # Where things stand: the head, the slots, the note

    def _slot_at(self, slot: int) -> int:
        return _HEAD_BYTES + slot * self._slot_bytes

    @property
    def _note_at(self) -> int:
        return _HEAD_BYTES + SLOTS * self._slot_bytes


STACKS_SIGNAL: Final = signal.SIGRTMIN + 4 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""The signal on which a watched process writes its threads' stacks. The handler is native code, so
it works even while other code holds the interpreter's lock."""


_FATAL_ERROR: Final = "Fatal Python error: "
"""The start of the line with which `faulthandler` begins the stacks of a crash."""
_OS_EXIT: Final = "os._exit"
"""The rest of that line when the process ended itself with `os._exit`."""


def _anonymous_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_current: ContextVar[Pulse | None] = ContextVar("palestra_pulse", default=None)


def current_pulse() -> Pulse | None:
    """Return the pulse of this process; None when no other process watches it."""
    return _current.get()


def make_current(pulse: Pulse) -> None:
    """Use `pulse` as this process's pulse until the process ends."""
    pulse.begin()
    _current.set(pulse)
    # The kernel does not say afterwards which thread called `os._exit`, nor from which line.
    setattr(os, "_exit", pulse.exit_at_once)  # noqa: B010  # mypy takes no assignment here


def exit_in_order(code: int) -> NoReturn:
    """End this process as `os._exit` does, when it is not an author's code that ends it."""
    pulse = current_pulse()
    if pulse is not None:
        pulse.rest()
    _exit(code)


@contextlib.contextmanager
def watched_by(pulse: Pulse) -> Iterator[None]:
    """Use `pulse` as this process's pulse while the body runs."""
    pulse.begin()
    token = _current.set(pulse)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Record in the current pulse, at regular intervals, that this event loop runs, while the body
    runs on it.
    """
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
    """Wraps an author's coroutine, and records it in the pulse exactly while it executes."""

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

    @property
    def gi_yieldfrom(self) -> Coroutine[Any, Any, Any]:
        """The coroutine. Generators have this attribute, so a dump of tasks shows where it waits."""
        return self._coroutine

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Continue the coroutine with `value`."""
        self._pulse.enter(self._text, self._deadline)
        try:
            return self._coroutine.send(value)
        finally:
            self._pulse.leave()

    def throw(self, *error: Any) -> Any:
        """Continue the coroutine with an exception."""
        self._pulse.enter(self._text, self._deadline)
        try:
            return self._coroutine.throw(*error)
        finally:
            self._pulse.leave()

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()
