"""The server's side of workers that hold sessions, against a worker that the test plays."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from played_worker import LIMIT_S, PlayedWorker

from palestra.errors import CallError, Outcome, RowError, from_body
from palestra.fleet import server_client
from palestra.fleet.isolation import wire
from palestra.fleet.isolation.session_workers import SessionWorkers
from palestra.fleet.isolation.wire import (
    ASK,
    REPLY,
    UNREADABLE,
    VALUE,
)
from palestra.server.endpoints import Endpoint
from palestra.server.own_errors import OwnErrors
from palestra.server.sessions import SessionStore
from palestra.transport import CallContext, calling


def plain(body: dict[str, Any]) -> dict[str, Any]:
    return body


@asynccontextmanager
async def played() -> AsyncIterator[tuple[PlayedWorker, Callable[[str], asyncio.Task[Any]]]]:
    """A worker, and what begins a call of a plain method in a session."""
    worker, sessions = PlayedWorker(), SessionStore()
    endpoint = Endpoint(
        plain, path="/act", server="env", sessions=sessions, on_error=SimpleNamespace
    )
    workers = SessionWorkers(
        worker,
        server="env",
        client=server_client({}, {}),
        sessions=sessions,
        errors=OwnErrors(),
        most_workers=1,
    )
    async with asyncio.timeout(LIMIT_S):
        yield worker, lambda session: asyncio.create_task(workers.perform(endpoint, {}, session))
    await workers.close()


def test_a_session_that_waits_for_its_first_turn_runs_before_calls_that_came_later() -> None:
    async def run() -> str:
        async with played() as (worker, call):
            running = call("begun")
            [_, number, *_] = await worker.order()
            waiting = [call("new")]
            await asyncio.sleep(0.01)
            waiting.append(call("begun"))
            await asyncio.sleep(0.01)
            worker.say(VALUE, number, ["text", ""])
            await running
            [_, _, _, session, *_] = await worker.order()
            return str(session)

    assert asyncio.run(run()) == "new"


def test_a_question_that_cannot_be_asked_has_a_failure_for_an_answer() -> None:
    async def run() -> tuple[Any, ...]:
        async with played() as (worker, call):
            asking = call("s")
            [_, number, *_] = await worker.order()
            worker.say(ASK, number, 7, "nobody", "POST", "/verify", [["x", None]], b"", None)
            reply = await worker.order()
            worker.say(VALUE, number, ["text", ""])
            await asking
            return reply

    kind, number, answer = asyncio.run(run())

    assert (kind, number, len(answer)) == (REPLY, 7, 1)


def test_a_call_that_its_worker_could_not_read_is_sent_in_another_form() -> None:
    async def run() -> tuple[int, Any]:
        async with played() as (worker, call):
            result = call("s")
            [_, first, *_] = await worker.order()
            worker.say(UNREADABLE, first, "no such class")
            [_, second, *_] = await worker.order()
            worker.say(VALUE, second, ["text", "done"])
            return second - first, await result

    assert asyncio.run(run()) == (1, "done")


def test_a_call_that_is_too_long_for_a_worker_is_a_fault_of_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "LONGEST_MESSAGE", 2000)

    async def run() -> None:
        async with played() as (worker, call):
            with pytest.raises(RowError, match="worker process accepts at most 2,000"):
                await call("s" * 4000)
            # Its worker serves other calls.
            next_one = call("s")
            [_, number, *_] = await worker.order()
            worker.say(VALUE, number, ["text", ""])
            await next_one

    asyncio.run(run())


def test_an_answer_that_is_too_long_for_a_worker_is_a_failure_of_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "LONGEST_MESSAGE", 2000)

    async def answered(*_: Any) -> tuple[Any, ...]:
        return 200, [], bytes(4000)

    monkeypatch.setattr("palestra.fleet.isolation.client._answer_of", answered)

    async def run() -> tuple[Any, ...]:
        async with played() as (worker, call):
            asking = call("s")
            [_, number, *_] = await worker.order()
            worker.say(ASK, number, 7, "model", "POST", "/v1/responses", [], b"", None)
            reply = await worker.order()
            worker.say(VALUE, number, ["text", ""])
            await asking
            return reply

    kind, _, [failure] = asyncio.run(run())

    assert kind == REPLY
    assert isinstance(from_body(orjson.loads(failure)), RowError)


@pytest.mark.slow
def test_a_call_that_had_its_turn_late_blames_no_code() -> None:
    async def run() -> CallError:
        async with played() as (worker, call):
            running = call("slow")
            [_, number, *_] = await worker.order()
            with calling(CallContext(deadline=time.monotonic() + 1.5)):
                late = call("late")
            await asyncio.sleep(0.8)
            worker.say(VALUE, number, ["text", ""])
            await running
            with pytest.raises(CallError) as raised:
                await late
            return raised.value

    assert asyncio.run(run()).outcome is Outcome.TIMEOUT
