"""Call a server's methods in workers that hold replicas of the server, each call within its time
limit.
"""

import asyncio
import base64
import contextlib
import pickle
import time
import weakref
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import orjson
from pydantic import BaseModel

from palestra.config import InstanceConfig, environment_of
from palestra.errors import (
    Bystander,
    CallError,
    DeadlineExceeded,
    InfraError,
    VerifierError,
    from_body,
)
from palestra.fleet.isolation.authors_keeper import AuthorsKeeper, Forking, limit_of
from palestra.fleet.isolation.client import reply_to
from palestra.fleet.isolation.failures import failure_of
from palestra.fleet.isolation.link import Link, WorkerGone
from palestra.fleet.isolation.results import body_bytes, exact_body_bytes, unpacked
from palestra.fleet.isolation.session_places import (
    Answered,
    SessionCall,
    SessionPlaces,
    SessionWorker,
    is_placed,
)
from palestra.fleet.isolation.wire import (
    ASK,
    BUG,
    CALL,
    CANCEL,
    FAILED,
    UNREADABLE,
    VALUE,
    order_frame,
    sent_context,
)
from palestra.schema import set_fields, to_plain
from palestra.server import (
    CLOSE_SESSION,
    TIME_LIMIT,
    Endpoint,
    OwnErrors,
    ResourcesServer,
    SessionStore,
)
from palestra.transport import CallContext, ServerClient, current_call

PROGRAM: Final = "palestra.fleet.isolation.replica:replica_of"
MOST: Final = 32
CANCEL_GRACE_S: Final = 0.3
"""The seconds that a worker has to cancel an async method. After that the method counts as hung."""
ABANDONED_S: Final = 1.0
"""The seconds that a call may still run after its caller is gone, before its worker is killed."""
_UNENCODABLE: Final = (pickle.PicklingError, TypeError, AttributeError)


class _Unreadable(Exception):
    """The worker could not read the call's body."""


@final
class SessionWorkers:
    """The workers of one server. Use it from one event loop only."""

    def __init__(
        self,
        keeper: Forking,
        *,
        server: str,
        client: ServerClient,
        sessions: SessionStore,
        errors: OwnErrors,
        most_workers: int = MOST,
    ) -> None:
        """`most_workers`: the maximum number of workers, not counting stuck ones. When all are in
        use, further sessions share them.
        """
        weakref.finalize(self, keeper.end)
        self._server = server
        self._client = client
        self._sessions = sessions
        self._errors = errors
        self._tasks: set[asyncio.Task[Any]] = set()
        self._places = SessionPlaces(
            keeper,
            server=server,
            most_workers=most_workers,
            on_message=self._on_message,
            keep=self._keep,
        )

    async def start(self) -> None:
        """Start one worker. Raises WorkersBroken, with the exception of the server's `start` in
        that worker.
        """
        await self._places.start()

    async def perform(self, endpoint: Endpoint, body: Any, session_id: str) -> Any:
        """Run an endpoint's method in the session's worker. Raises `CallError`."""
        context = current_call()
        limit_s = limit_of(context)
        due = None if limit_s is None else time.monotonic() + limit_s
        call = SessionCall(endpoint, body, session_id, context, limit_s, due)
        session = self._sessions.open(session_id)
        if endpoint.path == CLOSE_SESSION and not is_placed(session):
            self._sessions.close(session_id)
            return {}
        worker, has_turn = await self._places.place(session, call)
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

    async def _plain(self, worker: SessionWorker, call: SessionCall, *, has_turn: bool) -> Any:
        if not has_turn and not await worker.takes_turn(call.left_s()):
            raise Bystander(
                f"{self._server}{call.endpoint.path} waited {call.limit_s:.1f} s for the worker "
                f"process of its session, which was running {worker.path} for another rollout",
                hint=f"{worker.path} is slow or hangs; the error of the other rollout names the "
                "line",
            )
        number = worker.link.number()
        worker.began = time.monotonic()
        worker.running, worker.path = number, f"{self._server}{call.endpoint.path}"
        try:
            answer = self._asked_of(worker, number, call)
        except BaseException:
            worker.running = 0
            worker.turn.release()
            raise
        hang = None
        if (left_s := call.left_s()) is not None:
            loop = asyncio.get_running_loop()
            hang = loop.call_later(left_s, self._stop_hung, worker, number, call, left_s)
        try:
            return self._result(call, await asyncio.shield(answer))
        except WorkerGone:
            raise self._loss(worker, call.session_id) from None
        except asyncio.CancelledError:
            if not answer.done():
                self._keep(self._abandon(worker, number, call, answer))
            raise
        finally:
            if hang is not None:
                hang.cancel()

    async def _async(self, worker: SessionWorker, call: SessionCall, *, has_turn: bool) -> Any:
        del has_turn  # async methods run beside each other
        number = worker.link.number()
        answer = self._asked_of(worker, number, call)
        try:
            return await self._in_time(worker, number, call, answer)
        except WorkerGone:
            raise self._loss(worker, call.session_id) from None

    async def _in_time(
        self, worker: SessionWorker, number: int, call: SessionCall, answer: Answered
    ) -> Any:
        """Return the result of an async method. At its limit the method is cancelled."""
        left_s = call.left_s()
        try:
            async with asyncio.timeout(left_s) as limit:
                message = await asyncio.shield(answer)
            return self._result(call, message)
        except asyncio.CancelledError:
            worker.link.send(order_frame(CANCEL, number))
            if not answer.done():
                self._keep(self._abandon(worker, number, call, answer))
            raise
        except TimeoutError:
            if not limit.expired():
                raise
        worker.link.send(order_frame(CANCEL, number))
        await asyncio.wait({answer}, timeout=CANCEL_GRACE_S)
        ran_s = left_s or 0.0
        if not answer.done():
            await self._end_hung(worker, number, call.endpoint, ran_s)
        with contextlib.suppress(DeadlineExceeded):
            return self._result(call, await answer)
        raise DeadlineExceeded(
            f"{self._server}{call.endpoint.path} was not done after {ran_s:.1f} s",
            hint=f"raise {TIME_LIMIT}, or find out what the call waits for",
        )

    def _asked_of(self, worker: SessionWorker, number: int, call: SessionCall) -> Answered:
        """Send a call to a worker, and return the future of its answer."""
        frame = _call_frame(number, call)
        worker.contexts[number] = call.context
        answer = worker.link.ask(number, frame)
        answer.add_done_callback(partial(worker.take_answer, number, call, self._server))
        return answer

    def _result(self, call: SessionCall, message: list[Any]) -> Any:
        """Return the result that a worker's answer contains. Raises `CallError` when the answer is
        a failure.
        """
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
        raise VerifierError(f"{self._server}{path}: the reply of its worker process cannot be read")

    def _loss(self, worker: SessionWorker, session_id: str) -> CallError:
        """Return the error of a call in a session whose worker has ended."""
        if (fault := worker.faults.get(session_id)) is not None:
            return failure_of(self._server, *fault)
        reason = worker.reason or "it was stopped"
        return Bystander(
            "the worker process with this rollout's session has ended; in another rollout, "
            f"{reason}",
            hint="nothing is wrong with this rollout: it is tried again",
        )

    def _stop_hung(
        self, worker: SessionWorker, number: int, call: SessionCall, ran_s: float
    ) -> None:
        self._keep(self._end_hung(worker, number, call.endpoint, ran_s))

    async def _end_hung(
        self, worker: SessionWorker, number: int, endpoint: Endpoint, ran_s: float
    ) -> None:
        if not worker.link.waits_for(number):
            return
        if not worker.culprit:
            worker.culprit = number
            worker.reason = f"{self._server}{endpoint.path} did not return within {ran_s:.1f} s"
        await worker.link.stop_hung(number, ran_s)

    async def _abandon(
        self, worker: SessionWorker, number: int, call: SessionCall, answer: Answered
    ) -> None:
        """Wait briefly for a call whose caller is gone, then kill its worker, so that the call does
        not block the worker.
        """
        await asyncio.wait({answer}, timeout=ABANDONED_S)
        if not answer.done():
            await self._end_hung(worker, number, call.endpoint, ABANDONED_S)
        with contextlib.suppress(WorkerGone):
            await answer

    # What workers ask

    def _on_message(self, link: Link, message: list[Any]) -> None:
        match message:
            case [kind, str(path), str(name), str(text), str(frames)] if kind == BUG:
                self._errors.note(self._server, path, name, text, frames)
            case [kind, int(call), int(number), *question] if kind == ASK:
                context = self._places.context_of(link, call) or CallContext()
                self._keep(self._reply(link, question, number, context))

    async def _reply(
        self, link: Link, question: list[Any], number: int, context: CallContext
    ) -> None:
        link.send(await reply_to(question, number, context, self._client, server=self._server))

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it, or has gone

    async def close(self) -> None:
        """End every worker process."""
        self._places.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._places.end()


def workers_of(
    server: ResourcesServer, instance: InstanceConfig, client: ServerClient
) -> SessionWorkers:
    """Return the workers for one server of a fleet."""
    targets = {t.name: (t.server_type, t.urls) for t in client.targets.values()}
    order = (instance, targets, dict(client.tree))
    argument = base64.b64encode(pickle.dumps(order)).decode()
    source_file = environment_of(instance)
    entrypoint = (instance.folder or Path()) / instance.entrypoint
    path = entrypoint if source_file is None else Path(source_file.path)
    return SessionWorkers(
        AuthorsKeeper(
            path,
            sources=instance.folder if source_file is None else path,
            program=PROGRAM,
            argument=argument,
        ),
        server=server.name,
        client=client,
        sessions=server.palestra_sessions,
        errors=server.palestra_errors,
    )


def _call_frame(number: int, call: SessionCall) -> bytes:
    context = sent_context(call.context)
    return order_frame(CALL, number, call.endpoint.path, call.session_id, _content(call), context)


def _content(call: SessionCall) -> bytes:
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
