"""Assign sessions to workers. A session stays in the worker in which it began."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, final

from palestra.errors import CallError, InfraError
from palestra.fleet.isolation.authors_keeper import Forking
from palestra.fleet.isolation.failures import failure_of
from palestra.fleet.isolation.link import Ending, Killed, Link, WorkerEnded, WorkerGone
from palestra.fleet.isolation.wire import END, VALUE, order_frame
from palestra.server import Endpoint, Session
from palestra.transport import CallContext

MOST_OF_ALL: Final = 128
STUCK_S: Final = 1.0
"""After this many seconds in a synchronous method, a worker receives no other session."""
UNKNOWN_CALL: Final = -1
"""The value of `culprit` when it is unknown which call ended the worker."""
_WORKER: Final = "worker"
_BEGUN: Final = "begun"
_LEFT: Final = "leaves its worker at the end"
"""Keys of what this process keeps of a session. The session's state is in the worker."""


Answered: TypeAlias = asyncio.Future[list[Any]]


@dataclass(eq=False, slots=True)
class SessionCall:
    """One call of an endpoint's method."""

    endpoint: Endpoint
    body: Any
    session_id: str
    context: CallContext
    limit_s: float | None
    due: float | None
    """The time of the call's limit, as a `time.monotonic()` value. None without a limit."""
    is_exact: bool = False
    """Whether all objects of the body are pickled."""

    def left_s(self) -> float | None:
        """Return the seconds until the call's limit; None without a limit."""
        return None if self.due is None else max(0.0, self.due - time.monotonic())


@dataclass(eq=False, slots=True)
class SessionWorker:
    """One worker with a replica of the server, its sessions and its current calls."""

    link: Link
    sessions: set[str] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Locked while a synchronous method runs, so that only one runs at a time."""
    contexts: dict[int, CallContext] = field(default_factory=dict)
    """The contexts of the calls that the worker runs, by call number."""
    running: int = 0
    """The number of the synchronous call that runs now; 0 when none does."""
    path: str = ""
    """The server and path of the synchronous method that ran last."""
    culprit: int = 0
    """The number of the call that ended the worker; 0 while no call has."""
    faults: dict[str, tuple[str, Ending]] = field(default_factory=dict)
    """Path and ending of the call that ended the worker, by its session id."""
    reason: str = ""
    """How that call ended the worker, for the error of the other sessions that were lost with the
    worker."""

    began: float = 0.0
    """When the synchronous method began, as a `time.monotonic()` value."""

    def forget(self, session_id: str) -> None:
        """Close a session in the worker, unless it is closed already."""
        if session_id in self.sessions:
            self.sessions.discard(session_id)
            self.link.send(order_frame(END, session_id))

    def is_alive(self) -> bool:
        """Whether the worker can be called."""
        return self.link.alive

    def is_stuck(self, latest: float) -> bool:
        """Whether a synchronous method has been running since before `latest`."""
        return self.running != 0 and self.began < latest

    def load(self, latest: float) -> tuple[bool, int]:
        """Return a sort key for placing a new session: the lowest key is the best worker."""
        return self.is_stuck(latest), len(self.sessions)

    def take_answer(self, number: int, call: SessionCall, server: str, answer: Answered) -> None:
        """Record that the call `number` was answered, or that its worker ended."""
        gone = answer.exception()
        if isinstance(gone, WorkerGone):
            self._note_loss(number, call, server, gone.ending)
        elif call.endpoint.ends_session and answer.result()[0] == VALUE:
            self.sessions.discard(call.session_id)  # the worker has closed it as well
        del self.contexts[number]
        if self.running == number:
            self.running = 0
            self.turn.release()

    def _note_loss(self, number: int, call: SessionCall, server: str, ending: Ending) -> None:
        """Find the call that ended the worker. This runs for every call of the worker before any of
        them fails.
        """
        if not self.culprit and isinstance(ending, WorkerEnded):
            # The plain method that runs is the first suspect; or the only call there is.
            only_call = number if len(self.contexts) == 1 else UNKNOWN_CALL
            self.culprit = self.running or only_call
        if self.culprit in {number, UNKNOWN_CALL}:
            path = call.endpoint.path
            self.faults[call.session_id] = path, ending
            self.reason = self.reason or failure_of(server, path, ending).message

    async def takes_turn(self, within_s: float | None) -> bool:
        """Wait until the worker may run a synchronous method. False when `within_s` seconds were
        not enough.
        """
        try:
            async with asyncio.timeout(within_s):
                await self.turn.acquire()
        except TimeoutError:
            return False
        return True


@final
class SessionPlaces:
    """The workers of one server, and the sessions in each of them."""

    def __init__(
        self,
        keeper: Forking,
        *,
        server: str,
        most_workers: int,
        on_message: Callable[[Link, list[Any]], None],
        keep: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        """`on_message`: receives the messages of workers that are not answers. `keep`: runs a
        coroutine as a task until it is done.
        """
        self._keeper = keeper
        self._server = server
        self._most = most_workers
        self._on_message = on_message
        self._keep = keep
        self._workers: dict[Link, SessionWorker] = {}
        self._starting = 0

    async def start(self) -> None:
        """Start one worker. Raises WorkersBroken, with the exception of the server's `start` in
        that worker.
        """
        if not self._workers:
            await self._fork()

    def context_of(self, link: Link, number: int) -> CallContext | None:
        """Return the context of the call `number`, which the worker of `link` runs; None when there
        is no such call.
        """
        worker = self._workers.get(link)
        return None if worker is None else worker.contexts.get(number)

    def kill(self) -> None:
        """Kill every worker."""
        for link in self._workers:
            link.end(Killed())

    async def end(self) -> None:
        """Forget all workers, and end the process that they were forked from."""
        self._workers.clear()
        await asyncio.to_thread(self._keeper.end)

    async def place(self, session: Session, call: SessionCall) -> tuple[SessionWorker, bool]:
        """Return the session's worker, and whether the call already holds the worker's turn.

        From then on the session stays in this worker. Raises `CallError` when no worker is
        available.
        """
        worker, has_turn = await self._find(session, call)
        session.state[_BEGUN] = True
        return worker, has_turn

    async def _find(self, session: Session, call: SessionCall) -> tuple[SessionWorker, bool]:
        """Find the session's worker. A session that has not begun moves to another worker if its
        own has ended or stays busy.
        """
        while True:
            worker = await self._worker_of(session, call)
            if _BEGUN in session.state:
                return worker, False
            if worker.is_alive():
                left_s = call.left_s()
                soon_due = left_s is not None and left_s < 2 * STUCK_S
                if not call.endpoint.is_sync or not worker.turn.locked() or soon_due:
                    return worker, False
                has_turn = await worker.takes_turn(STUCK_S)
                if has_turn and worker.is_alive():
                    return worker, True
                if has_turn:
                    worker.turn.release()
                if _BEGUN in session.state:
                    continue  # by another call of it, and perhaps elsewhere
            if session.state.get(_WORKER) is worker:
                self._leave_worker(session)

    async def _worker_of(self, session: Session, call: SessionCall) -> SessionWorker:
        assigned: SessionWorker | asyncio.Task[SessionWorker] | None = session.state.get(_WORKER)
        if assigned is None:
            assigned = self._worker_for(session.id) or self._fork_for(session.id)
            session.state[_WORKER] = assigned
            if _LEFT not in session.state:
                session.state[_LEFT] = True
                session.at_end(partial(self._leave_worker, session))
        if isinstance(assigned, SessionWorker):
            return assigned
        try:
            async with asyncio.timeout(call.left_s()):
                worker = await asyncio.shield(assigned)
        except TimeoutError:
            raise InfraError(
                f"{self._server}: no worker process was free within {call.limit_s:.1f} s"
            ) from None
        except CallError:
            session.state.pop(_WORKER, None)
            raise
        if session.state.get(_WORKER) is assigned:
            session.state[_WORKER] = worker
        return worker

    def _worker_for(self, session_id: str) -> SessionWorker | None:
        """Return the best existing worker for a new session; None when a new worker must be
        started.
        """
        self._forget_ended()
        workers = self._workers.values()
        latest = time.monotonic() - STUCK_S
        worker = min(workers, key=lambda worker: worker.load(latest), default=None)
        busy = sum(worker.is_stuck(latest) for worker in workers)
        room = min(self._most + busy, MOST_OF_ALL) - len(workers) - self._starting
        if worker is None or (room > 0 and (worker.sessions or worker.is_stuck(latest))):
            return None
        worker.sessions.add(session_id)
        return worker

    def _fork_for(self, session_id: str) -> asyncio.Task[SessionWorker]:
        self._starting += 1  # at once: others decide before the task begins
        return self._keep(self._forked_for(session_id))

    async def _forked_for(self, session_id: str) -> SessionWorker:
        try:
            worker = await self._fork()
        finally:
            self._starting -= 1
        worker.sessions.add(session_id)
        return worker

    async def _fork(self) -> SessionWorker:
        link = Link(await self._keeper.fork(), self._on_message)
        worker = self._workers[link] = SessionWorker(link)
        return worker

    def _forget_ended(self) -> None:
        for link in [link for link in self._workers if not link.alive]:
            del self._workers[link]

    def _leave_worker(self, session: Session) -> None:
        """Remove a session from its worker, because it is over or begins in another worker."""
        assigned: SessionWorker | asyncio.Task[SessionWorker] | None = session.state.pop(
            _WORKER, None
        )
        if isinstance(assigned, SessionWorker):
            assigned.forget(session.id)
        elif assigned is not None:
            assigned.add_done_callback(partial(_forget_forked, session.id))


def _forget_forked(session_id: str, forked: asyncio.Task[SessionWorker]) -> None:
    if not forked.cancelled() and forked.exception() is None:
        forked.result().forget(session_id)


def is_placed(session: Session) -> bool:
    """Whether the session has a worker, or a worker is being started for it."""
    return _WORKER in session.state
