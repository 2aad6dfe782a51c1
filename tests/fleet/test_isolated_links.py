"""A server's end of a worker, when the limit of a call and its answer come at the same moment."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from palestra.fleet.isolation.link import Hung, Link, WorkerEnded, WorkerGone
from palestra.fleet.isolation.wire import VALUE, message_frame, order_frame
from palestra.sandbox import WorkerHandle
from palestra.sandbox.workers.nursery import EXIT_CODE

STACK = b'  File "/x/env.py", line 3 in verify\n  File "<string>", line 1 in <module>\n'


@contextmanager
def linked() -> Iterator[tuple[Link, socket.socket, socket.socket]]:
    """A link, and the worker's ends of its two sockets."""
    calls, their_calls = socket.socketpair()
    line, their_line = socket.socketpair()
    with calls, their_calls, line, their_line:
        for sock in (calls, line):
            sock.setblocking(False)
        yield Link(WorkerHandle(calls, line, 0), lambda *_: None), their_calls, their_line


def test_a_limit_that_comes_with_the_answer_does_not_kill_the_next_call() -> None:
    async def run() -> tuple[list[object], bool]:
        with linked() as (link, worker, _):
            number = link.number()
            call = asyncio.create_task(link.answer(number, order_frame(number)))
            await asyncio.sleep(0)
            worker.sendall(message_frame(VALUE, number, 1.0))
            message = await call
            await link.stop_hung(number, 1.0)
            return message, link.alive

    assert asyncio.run(run()) == ([VALUE, 1, 1.0], True)


def test_two_calls_that_hang_at_once_have_the_stack_of_their_worker() -> None:
    async def run() -> list[list[object] | BaseException]:
        with linked() as (link, worker, line):
            numbers = [link.number(), link.number()]
            calls = [asyncio.create_task(link.answer(n, order_frame(n))) for n in numbers]
            await asyncio.sleep(0)
            first = asyncio.create_task(link.stop_hung(numbers[0], 1.0))
            await asyncio.sleep(0)
            worker.sendall(STACK[:20])
            await asyncio.sleep(0.01)
            second = asyncio.create_task(link.stop_hung(numbers[1], 1.0))
            await asyncio.sleep(0)
            worker.sendall(STACK[20:])
            await asyncio.gather(first, second)
            assert line.recv(64) == b"?"
            return list(await asyncio.gather(*calls, return_exceptions=True))

    endings = [gone.ending for gone in asyncio.run(run()) if isinstance(gone, WorkerGone)]
    assert [e.place.line for e in endings if isinstance(e, Hung)] == [3, 3]


def test_an_answer_arrives_that_the_text_of_a_crash_follows_at_once() -> None:
    async def run() -> list[list[object] | BaseException]:
        with linked() as (link, worker, line):
            numbers = [link.number(), link.number()]
            calls = [asyncio.create_task(link.answer(n, order_frame(n))) for n in numbers]
            await asyncio.sleep(0)
            worker.sendall(message_frame(VALUE, 1, 1.0) + b"Fatal")
            await asyncio.sleep(0.01)
            worker.sendall(b" Python error: Segmentation fault\n\n" + STACK)
            line.send(EXIT_CODE.pack(-signal.SIGSEGV))
            worker.close()
            return list(await asyncio.gather(*calls, return_exceptions=True))

    answered, gone = asyncio.run(run())

    assert answered == [VALUE, 1, 1.0]
    assert isinstance(gone, WorkerGone)
    assert isinstance(gone.ending, WorkerEnded)
    assert (gone.ending.code, gone.ending.place.line) == (-signal.SIGSEGV, 3)
