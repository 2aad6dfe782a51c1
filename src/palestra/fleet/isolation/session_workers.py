"""Workers that hold replicas of a server: a session stays in the one that it began in."""

import asyncio
import base64
import contextlib
import pickle
import time
import weakref
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import orjson
from pydantic import BaseModel

from palestra.config import InstanceConfig
from palestra.errors import (
    Bystander,
    CallError,
    DeadlineExceeded,
    InfraError,
    VerifierError,
    from_body,
    to_body,
)
from palestra.fleet.isolation.authors_keeper import AuthorsKeeper, Forking, limit_of
from palestra.fleet.isolation.failures import failure_of
from palestra.fleet.isolation.link import Ending, Killed, Link, WorkerEnded, WorkerGone
from palestra.fleet.isolation.results import body_bytes, exact_body_bytes, unpacked
from palestra.fleet.isolation.wire import (
    ASK,
    BUG,
    CALL,
    CANCEL,
    END,
    FAILED,
    REPLY,
    UNREADABLE,
    VALUE,
    order_frame,
    sent_context,
)
from palestra.schema import encode_json, set_fields, to_plain
from palestra.server import (
    CLOSE_SESSION,
    TIME_LIMIT,
    Endpoint,
    OwnErrors,
    ResourcesServer,
    Session,
    SessionStore,
    error_text,
)
from palestra.transport import CallContext, ServerClient, calling, current_call, parse_set_cookies

PROGRAM: Final = "palestra.fleet.isolation.replica:replica_of"
MOST: Final = 32
MOST_OF_ALL: Final = 128
STUCK_S: Final = 1.0
"""How long a plain method runs before no other session is put beside it."""
CANCEL_GRACE_S: Final = 0.3
"""For a worker to cancel an async method: one that does not is held by it."""
ABANDONED_S: Final = 1.0
"""How long a plain method may go on that nobody waits for, before its worker is killed."""
UNKNOWN_CALL: Final = -1
"""The culprit, where it cannot be told."""
_WORKER: Final = "worker"
_BEGUN: Final = "begun"
_LEFT: Final = "leaves its worker at the end"
"""What this process keeps of a session; its state is in the worker."""
_UNENCODABLE: Final = (pickle.PicklingError, TypeError, AttributeError)
_OWN_HEADERS: Final = ("x-palestra-", "authorization", "cookie", "content-type", "content-length")


@dataclass(eq=False, slots=True)
class _Worker:
    """One replica, and what it is doing."""

    link: Link
    sessions: set[str] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Locked while a plain method runs: one at a time."""
    contexts: dict[int, CallContext] = field(default_factory=dict)
    """Of the calls that it serves."""
    running: int = 0
    """The number of the plain method's call that runs."""
    path: str = ""
    """Of the plain method that ran last."""
    culprit: int = 0
    """The number of the call that it ended for."""
    faults: dict[str, tuple[str, Ending]] = field(default_factory=dict)
    """Path and ending of the call that it ended for, by its session."""
    reason: str = ""
    """What that call did, for the sessions that ended with it."""

    began: float = 0.0
    """When that method began."""

    def forget(self, session_id: str) -> None:
        """Close a session that is not closed yet."""
        if session_id in self.sessions:
            self.sessions.discard(session_id)
            self.link.send(order_frame(END, session_id))

    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self.link.alive

    def is_stuck(self, latest: float) -> bool:
        """Whether its plain method runs since before `latest`."""
        return self.running != 0 and self.began < latest

    def load(self, latest: float) -> tuple[bool, int]:
        """Less is better for another session."""
        return self.is_stuck(latest), len(self.sessions)

    def take_answer(self, number: int, call: "_Call", server: str, answered: "_Answer") -> None:
        """The call `number` has its answer, or has lost its worker."""
        gone = answered.exception()
        if isinstance(gone, WorkerGone):
            self._note_loss(number, call, server, gone.ending)
        elif call.endpoint.ends_session and answered.result()[0] == VALUE:
            self.sessions.discard(call.session_id)  # the worker has closed it as well
        del self.contexts[number]
        if self.running == number:
            self.running = 0
            self.turn.release()

    def _note_loss(self, number: int, call: "_Call", server: str, ending: Ending) -> None:
        """Find the call that the worker ended for. Every call is told of it before any fails."""
        if not self.culprit and isinstance(ending, WorkerEnded):
            # The plain method that runs is the first suspect; or the only call there is.
            alone = number if len(self.contexts) == 1 else UNKNOWN_CALL
            self.culprit = self.running or alone
        if self.culprit in {number, UNKNOWN_CALL}:
            path = call.endpoint.path
            self.faults[call.session_id] = path, ending
            self.reason = self.reason or failure_of(server, path, ending).message

    async def takes_turn(self, within_s: float | None) -> bool:
        """Wait for the turn; False when it did not come within that time."""
        try:
            async with asyncio.timeout(within_s):
                await self.turn.acquire()
        except TimeoutError:
            return False
        return True


_Answer = asyncio.Future[list[Any]]


class _Unreadable(Exception):
    """The worker could not read the call's body."""


@dataclass(eq=False, slots=True)
class _Call:
    """One call of an endpoint's method."""

    endpoint: Endpoint
    body: Any
    session_id: str
    context: CallContext
    limit_s: float | None
    due: float | None
    """When the limit is reached, a `time.monotonic()` value."""
    is_exact: bool = False
    """Whether all objects of the body are pickled."""

    def left_s(self) -> float | None:
        """Seconds until the limit; None without one."""
        return None if self.due is None else max(0.0, self.due - time.monotonic())


@final
class SessionWorkers:
    """The workers of one server. Belongs to the event loop that calls it."""

    def __init__(
        self,
        keeper: Forking,
        *,
        server: str,
        client: ServerClient,
        sessions: SessionStore,
        errors: OwnErrors,
        most: int = MOST,
    ) -> None:
        """`most`: workers; sessions beyond that share them. Those that are stuck do not count."""
        self._keeper = keeper
        self._most = most
        weakref.finalize(self, self._keeper.end)
        self._server = server
        self._client = client
        self._sessions = sessions
        self._errors = errors
        self._workers: dict[Link, _Worker] = {}
        self._starting = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Have a worker ready. Raises WorkersBroken, with what `start` raised there."""
        if not self._workers:
            await self._fork()

    async def perform(self, endpoint: Endpoint, body: Any, session_id: str) -> Any:
        """Run an endpoint's method in the session's worker. Raises `CallError`."""
        context = current_call()
        limit_s = limit_of(context)
        due = None if limit_s is None else time.monotonic() + limit_s
        call = _Call(endpoint, body, session_id, context, limit_s, due)
        session = self._sessions.open(session_id)
        if endpoint.path == CLOSE_SESSION and _WORKER not in session.state:
            self._sessions.close(session_id)
            return {}
        worker, has_turn = await self._place(session, call)
        session.state[_BEGUN] = True
        if not worker.is_alive():
            if endpoint.path == CLOSE_SESSION:
                return {}
            raise self._loss(worker, session_id)
        perform = self._plain if endpoint.is_sync else self._async
        try:
            return await perform(worker, call, has_turn=has_turn)
        except _Unreadable:
            call.is_exact = True
            return await perform(worker, call, has_turn=False)

    async def _place(self, session: Session, call: _Call) -> tuple[_Worker, bool]:
        """The session's worker, and whether the call has its turn there already.

        A session that has not begun leaves a worker that has ended or is busy for long.
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

    async def _worker_of(self, session: Session, call: _Call) -> _Worker:
        assigned: _Worker | asyncio.Task[_Worker] | None = session.state.get(_WORKER)
        if assigned is None:
            assigned = self._worker_for(session.id) or self._fork_for(session.id)
            session.state[_WORKER] = assigned
            if _LEFT not in session.state:
                session.state[_LEFT] = True
                session.at_end(partial(self._leave_worker, session))
        if isinstance(assigned, _Worker):
            return assigned
        try:
            async with asyncio.timeout(call.left_s()):
                worker = await asyncio.shield(assigned)
        except TimeoutError:
            raise InfraError(
                f"{self._server}: no worker process within {call.limit_s:.1f} s"
            ) from None
        except CallError:
            session.state.pop(_WORKER, None)
            raise
        if session.state.get(_WORKER) is assigned:
            session.state[_WORKER] = worker
        return worker

    async def _plain(self, worker: _Worker, call: _Call, *, has_turn: bool) -> Any:
        if not has_turn and not await worker.takes_turn(call.left_s()):
            raise Bystander(
                f"{self._server}{call.endpoint.path} waited {call.limit_s:.1f} s for the process "
                f"of its session, in which {worker.path} was running for another rollout",
                hint=f"{worker.path} is slow or hangs; rows that ended of it name the line",
            )
        number = worker.link.number()
        worker.began = time.monotonic()
        worker.running, worker.path = number, f"{self._server}{call.endpoint.path}"
        try:
            answered = self._asked_of(worker, number, call)
        except BaseException:
            worker.running = 0
            worker.turn.release()
            raise
        hang = None
        if (left_s := call.left_s()) is not None:
            loop = asyncio.get_running_loop()
            hang = loop.call_later(left_s, self._stop_hung, worker, number, call, left_s)
        try:
            return self._result(call, await asyncio.shield(answered))
        except WorkerGone:
            raise self._loss(worker, call.session_id) from None
        except asyncio.CancelledError:
            if not answered.done():
                self._keep(self._abandon(worker, number, call, answered))
            raise
        finally:
            if hang is not None:
                hang.cancel()

    async def _async(self, worker: _Worker, call: _Call, *, has_turn: bool) -> Any:
        del has_turn  # async methods run beside each other
        number = worker.link.number()
        answered = self._asked_of(worker, number, call)
        try:
            return await self._in_time(worker, number, call, answered)
        except WorkerGone:
            raise self._loss(worker, call.session_id) from None

    async def _in_time(self, worker: _Worker, number: int, call: _Call, answered: _Answer) -> Any:
        """The result of an async method, which is cancelled at its limit."""
        left_s = call.left_s()
        try:
            async with asyncio.timeout(left_s) as limit:
                message = await asyncio.shield(answered)
            return self._result(call, message)
        except asyncio.CancelledError:
            worker.link.send(order_frame(CANCEL, number))
            if not answered.done():
                self._keep(self._abandon(worker, number, call, answered))
            raise
        except TimeoutError:
            if not limit.expired():
                raise
        worker.link.send(order_frame(CANCEL, number))
        await asyncio.wait({answered}, timeout=CANCEL_GRACE_S)
        ran_s = left_s or 0.0
        if not answered.done():
            await self._end_hung(worker, number, call.endpoint, ran_s)
        with contextlib.suppress(DeadlineExceeded):
            return self._result(call, await answered)
        raise DeadlineExceeded(
            f"{self._server}{call.endpoint.path} was not done after {ran_s:.1f} s",
            hint=f"raise {TIME_LIMIT}, or find out what it waits for",
        )

    def _asked_of(self, worker: _Worker, number: int, call: _Call) -> _Answer:
        """Send a call to a worker."""
        frame = _call_frame(number, call)
        worker.contexts[number] = call.context
        answered = worker.link.ask(number, frame)
        answered.add_done_callback(partial(worker.take_answer, number, call, self._server))
        return answered

    def _result(self, call: _Call, message: list[Any]) -> Any:
        """What a worker's answer says. Raises `CallError`."""
        path = call.endpoint.path
        match message:
            case [kind, _, list(packet)] if kind == VALUE:
                return unpacked(packet, call.body)
            case [kind, _, bytes(raw)] if kind == FAILED:
                raise from_body(orjson.loads(raw)) or VerifierError(f"{path} failed")
            case [kind, _, str()] if kind == UNREADABLE and not call.is_exact:
                raise _Unreadable
            case [kind, _, str(reason)] if kind == UNREADABLE:
                raise InfraError(
                    f"{self._server}{path}: its worker process cannot read the call: {reason}",
                    hint="set isolated=False, to run it inside the server's process",
                )
        raise VerifierError(f"{self._server}{path}: its worker answered what is no answer")

    def _loss(self, worker: _Worker, session_id: str) -> CallError:
        """Of a call in a session whose worker has ended."""
        if (fault := worker.faults.get(session_id)) is not None:
            return failure_of(self._server, *fault)
        reason = worker.reason or "it was stopped"
        return Bystander(
            f"the process that held this rollout's session has ended; in another rollout, {reason}",
            hint="nothing is wrong with this rollout: it is tried again",
        )

    def _stop_hung(self, worker: _Worker, number: int, call: _Call, ran_s: float) -> None:
        self._keep(self._end_hung(worker, number, call.endpoint, ran_s))

    async def _end_hung(
        self, worker: _Worker, number: int, endpoint: Endpoint, ran_s: float
    ) -> None:
        if not worker.link.waits_for(number):
            return
        if not worker.culprit:
            worker.culprit = number
            worker.reason = f"{self._server}{endpoint.path} did not return within {ran_s:.1f} s"
        await worker.link.stop_hung(number, ran_s)

    async def _abandon(self, worker: _Worker, number: int, call: _Call, answered: _Answer) -> None:
        """Nobody waits for a call any more: it must not hold its worker for long."""
        await asyncio.wait({answered}, timeout=ABANDONED_S)
        if not answered.done():
            await self._end_hung(worker, number, call.endpoint, ABANDONED_S)
        with contextlib.suppress(WorkerGone):
            await answered

    # Workers

    def _worker_for(self, session_id: str) -> _Worker | None:
        """The best worker for a new session; None where another one is to be made."""
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

    def _fork_for(self, session_id: str) -> asyncio.Task[_Worker]:
        self._starting += 1  # at once: others decide before the task begins
        return self._keep(self._forked_for(session_id))

    async def _forked_for(self, session_id: str) -> _Worker:
        try:
            worker = await self._fork()
        finally:
            self._starting -= 1
        worker.sessions.add(session_id)
        return worker

    async def _fork(self) -> _Worker:
        link = Link(await self._keeper.fork(), self._on_message)
        worker = self._workers[link] = _Worker(link)
        return worker

    def _forget_ended(self) -> None:
        for link in [link for link in self._workers if not link.alive]:
            del self._workers[link]

    def _leave_worker(self, session: Session) -> None:
        """A session is over, or begins elsewhere."""
        assigned: _Worker | asyncio.Task[_Worker] | None = session.state.pop(_WORKER, None)
        if isinstance(assigned, _Worker):
            assigned.forget(session.id)
        elif assigned is not None:
            assigned.add_done_callback(partial(_forget_forked, session.id))

    # What workers ask

    def _on_message(self, link: Link, message: list[Any]) -> None:
        match message:
            case [kind, str(path), str(name), str(text), str(frames)] if kind == BUG:
                self._errors.note(self._server, path, name, text, frames)
            case [kind, int(call), int(number), *question] if kind == ASK:
                worker = self._workers.get(link)
                context = worker.contexts.get(call) if worker is not None else None
                self._keep(self._ask(link, number, context or CallContext(), question))

    async def _ask(
        self, link: Link, number: int, context: CallContext, question: list[Any]
    ) -> None:
        """Make a call for a worker, as if it had been made here. It is always answered."""
        try:
            with calling(context):
                frame = order_frame(REPLY, number, await self._asked(*question))
        except CallError as error:
            frame = _failed_reply(number, error)
        except Exception as error:  # the author's code waits for it, whatever went wrong here
            failure = InfraError(
                f"{self._server}: its call through server_client failed: {error_text(error)}"
            )
            frame = _failed_reply(number, failure)
        link.send(frame)

    async def _asked(
        self,
        server: str,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        body: bytes,
        session_id: str | None,
    ) -> tuple[Any, ...]:
        """Status, headers and body of the answer."""
        cookies = [value for name, value in headers if name.lower() == "cookie"]
        reply = await self._client.forward(
            server,
            method,
            path,
            body=body,
            headers={n: v for n, v in headers if not n.lower().startswith(_OWN_HEADERS)},
            cookies=parse_set_cookies(cookies[0].split(";")) if cookies else {},
            session_id=session_id,
        )
        kept = [(n, v) for n, v in reply.headers.items() if n.lower() != "set-cookie"]
        kept += [("set-cookie", f"{n}={v}; path=/") for n, v in reply.cookies.items()]
        return reply.status, kept, reply.body

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it, or has gone

    async def close(self) -> None:
        """End every process."""
        for link in self._workers:
            link.end(Killed())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.clear()
        await asyncio.to_thread(self._keeper.end)


def _forget_forked(session_id: str, forked: asyncio.Task[_Worker]) -> None:
    if not forked.cancelled() and forked.exception() is None:
        forked.result().forget(session_id)


def workers_of(
    server: ResourcesServer, instance: InstanceConfig, client: ServerClient
) -> SessionWorkers:
    """The workers of one server of a fleet."""
    places = {t.name: (t.server_type, t.urls) for t in client.targets.values()}
    order = (instance, places, dict(client.tree))
    argument = base64.b64encode(pickle.dumps(order)).decode()
    return SessionWorkers(
        AuthorsKeeper(
            (instance.folder or Path()) / instance.entrypoint,
            sources=instance.folder,
            program=PROGRAM,
            argument=argument,
        ),
        server=server.name,
        client=client,
        sessions=server.palestra_sessions,
        errors=server.palestra_errors,
    )


def _failed_reply(number: int, error: CallError) -> bytes:
    return order_frame(REPLY, number, (encode_json(to_body(error)),))


def _call_frame(number: int, call: _Call) -> bytes:
    context = sent_context(call.context)
    return order_frame(CALL, number, call.endpoint.path, call.session_id, _content(call), context)


def _content(call: _Call) -> bytes:
    body = call.body
    if not call.is_exact:
        with contextlib.suppress(*_UNENCODABLE):
            return body_bytes(body)
    with contextlib.suppress(*_UNENCODABLE):
        return exact_body_bytes(body)
    # An object of a class that only this process has: its fields are checked again there.
    return exact_body_bytes(
        to_plain(set_fields(body)) if isinstance(body, BaseModel) else to_plain(body)
    )
