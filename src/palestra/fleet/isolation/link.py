"""A server's end of one author worker: sends calls, reads what comes, learns how it ended."""

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

from palestra.fleet.isolation.wire import ANSWERS, BodyCutter, Rubbish, read_message
from palestra.fleet.stacks import authors_place, is_whole
from palestra.sandbox import WorkerHandle
from palestra.server import AuthorsPlace

STACK_LIMIT_S: Final = 0.4
"""For a worker to show its stack: moments, more on a busy machine."""
_CHUNK: Final = 2**18
_CRASH: Final = b"Fatal Python error"
"""How faulthandler begins, of a worker that native code crashes."""


@dataclass(frozen=True, slots=True)
class Hung:
    """It was killed: a call of it was still running at its limit. `ran_s`: in the worker; what it
    waited for one, or for its turn, is no time of the code.
    """

    place: AuthorsPlace
    ran_s: float


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """It ended by itself. `code`: its exit code, a signal's negative number, None when unknown."""

    code: int | None
    place: AuthorsPlace = field(default_factory=AuthorsPlace)
    """Where native code crashed it."""


@dataclass(frozen=True, slots=True)
class Killed:
    """It was killed for a reason that is no fault of a call."""


Ending = Hung | WorkerEnded | Killed


class WorkerGone(Exception):
    """The worker ended before it answered."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@final
class Link:
    """To one worker that is ready. `on_message` gets what is no answer."""

    def __init__(
        self, worker: WorkerHandle, on_message: Callable[["Link", list[Any]], None]
    ) -> None:
        self._worker = worker
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._frames = BodyCutter()
        self._outgoing: deque[memoryview] = deque()
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._stack: bytearray | None = None
        self._stack_whole = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._next = 0
        self.ending: Ending | None = None
        # Whoever forgets to end it leaves no process and no socket behind either.
        weakref.finalize(self, worker.kill)
        self._loop.add_reader(worker.calls, self._read)

    @property
    def alive(self) -> bool:
        """Whether it can be called."""
        return self.ending is None and self._closing is None

    @property
    def is_new(self) -> bool:
        """Whether it was never called."""
        return self._next == 0

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._worker.pid

    def number(self) -> int:
        """For a new call."""
        self._next += 1
        return self._next

    def send(self, frame: bytes) -> None:
        """Send a frame, or as much of it as there is room for now, and the rest later."""
        if not self.alive:
            return
        view = memoryview(frame)
        if not self._outgoing:
            view = view[self._sent(view) :]
            if not view:
                return
            self._loop.add_writer(self._worker.calls, self._write)
        self._outgoing.append(view)

    def ask(self, number: int, frame: bytes) -> asyncio.Future[list[Any]]:
        """Send the call `number`: what its answer will be in, or WorkerGone.

        Not to be cancelled: the worker goes on with the call.
        """
        answer: asyncio.Future[list[Any]] = self._loop.create_future()
        if self.ending is not None:
            answer.set_exception(WorkerGone(self.ending))
        else:
            self._waiting[number] = answer
            self.send(frame)
        return answer

    async def answer(self, number: int, frame: bytes) -> list[Any]:
        """Send the call `number` and wait for its answer. Raises WorkerGone."""
        try:
            return await self.ask(number, frame)
        finally:
            self._waiting.pop(number, None)

    def waits_for(self, number: int) -> bool:
        """Whether the call `number` was sent and has no answer yet."""
        waiting = self._waiting.get(number)
        return waiting is not None and not waiting.done()

    async def stop_hung(self, number: int, ran_s: float) -> None:
        """Look where it is, and kill it, unless the call `number` has just been answered.

        The worker may run another call then. `ran_s`: how long the call ran.
        """
        if not self.waits_for(number):
            return
        with contextlib.suppress(OSError, TimeoutError):
            if self._stack is None:  # else another call of it hangs, too, and its stack is coming
                self._stack = bytearray()
                self._worker.line.send(b"?")
            async with asyncio.timeout(STACK_LIMIT_S):
                await self._stack_whole.wait()
        stack = (self._stack or b"").decode("utf-8", "replace")
        self.end(Hung(authors_place(stack), ran_s))

    def end(self, ending: Ending) -> None:
        """Kill it; whoever waits for an answer is told why."""
        if self.ending is not None:
            return
        self.ending = ending
        self._loop.remove_reader(self._worker.calls)
        if self._outgoing:
            self._loop.remove_writer(self._worker.calls)
        if self._closing is None or self._closing is asyncio.current_task():
            self._worker.kill()
        else:  # the loop still reads from what that would close
            self._closing.add_done_callback(lambda _: self._worker.kill())
            self._closing.cancel()
        self._stack_whole.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(WorkerGone(ending))

    def _sent(self, view: memoryview) -> int:
        try:
            return self._worker.calls.send(view)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:  # it has ended, which the reader is about to learn
            return len(view)

    def _write(self) -> None:
        while self._outgoing:
            view = self._outgoing.popleft()
            unsent = view[self._sent(view) :]
            if unsent:
                self._outgoing.appendleft(unsent)
                return
        self._loop.remove_writer(self._worker.calls)

    def _read(self) -> None:
        try:
            chunk = self._worker.calls.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._loop.remove_reader(self._worker.calls)
            if self._closing is None:
                self._closing = self._loop.create_task(self._learn_ending())
        elif self._stack is not None:
            self._stack += chunk
            if is_whole(self._stack.decode("utf-8", "replace")):
                self._stack_whole.set()
        else:
            self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        try:
            for body in self._frames.feed(chunk):
                message = read_message(body)
                if message[0] not in ANSWERS:
                    self._on_message(self, message)
                    continue
                waiting = self._waiting.pop(message[1], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except Rubbish as rubbish:
            text = rubbish.rest[: len(_CRASH)]
            if text and _CRASH.startswith(text):
                self._stack = bytearray(rubbish.rest)
            else:
                self.end(WorkerEnded(None))  # the author's code has written to our socket
        except (IndexError, TypeError, ValueError):
            self.end(WorkerEnded(None))

    async def _learn_ending(self) -> None:
        code = await self._worker.exit_code()
        stack = (self._stack or b"").decode("utf-8", "replace")
        self.end(WorkerEnded(code, authors_place(stack)))
