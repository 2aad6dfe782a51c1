"""A server's connection to one author worker: it sends calls, reads messages, and finds out how the
worker ended.
"""

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
"""The seconds that a worker has to print its stack. It needs much less, except on a busy machine.
"""
_CHUNK: Final = 2**18
_CRASH: Final = b"Fatal Python error"
"""The first bytes that faulthandler prints when native code crashes a worker."""


@dataclass(frozen=True, slots=True)
class Hung:
    """The worker was killed because a call was still running at its limit. `ran_s`: how long the
    call ran in the worker, without the time spent waiting for a worker or for its turn.
    """

    place: AuthorsPlace
    ran_s: float


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The worker ended by itself. `code`: its exit code; the negative signal number after a signal;
    None when unknown.
    """

    code: int | None
    place: AuthorsPlace = field(default_factory=AuthorsPlace)
    """Where native code crashed the worker. Empty when unknown."""


@dataclass(frozen=True, slots=True)
class Killed:
    """The worker was killed for a reason that no call is to blame for."""


Ending = Hung | WorkerEnded | Killed


class WorkerGone(Exception):
    """The worker ended before it answered the call."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@final
class Link:
    """The connection to one worker that is ready for calls. `on_message` receives every message
    that is not an answer.
    """

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
        self._loop.add_reader(worker.calls, self._read_some)

    @property
    def alive(self) -> bool:
        """Whether the worker can be called."""
        return self.ending is None and self._closing is None

    @property
    def is_new(self) -> bool:
        """Whether the worker was never called."""
        return self._next == 0

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._worker.pid

    def number(self) -> int:
        """Return the number for a new call."""
        self._next += 1
        return self._next

    def send(self, frame: bytes) -> None:
        """Send a frame to the worker. What the socket cannot take now is sent later."""
        if not self.alive:
            return
        view = memoryview(frame)
        if not self._outgoing:
            view = view[self._send_some(view) :]
            if not view:
                return
            self._loop.add_writer(self._worker.calls, self._write)
        self._outgoing.append(view)

    def ask(self, number: int, frame: bytes) -> asyncio.Future[list[Any]]:
        """Send the call `number`; return a future that receives its answer, or fails with
        WorkerGone.

        Do not cancel the future: the worker would still run the call.
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
        """Kill the worker, after reading where its code stands, unless the call `number` has just
        been answered.

        If it has, the worker may already run another call. `ran_s`: how many seconds the call ran.
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
        """Kill the worker. Every call that waits for an answer fails with `ending`."""
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

    def _send_some(self, view: memoryview) -> int:
        try:
            return self._worker.calls.send(view)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:  # it has ended, which the reader is about to learn
            return len(view)

    def _write(self) -> None:
        while self._outgoing:
            view = self._outgoing.popleft()
            unsent = view[self._send_some(view) :]
            if unsent:
                self._outgoing.appendleft(unsent)
                return
        self._loop.remove_writer(self._worker.calls)

    def _read_some(self) -> None:
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
