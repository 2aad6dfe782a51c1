"""One exchange at a time, its deadline, and what becomes of the connection, without a socket."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, cast

import pytest
import uvloop

from palestra.transport import HttpRequest
from palestra.transport.h1.connection import (
    JOINED_BYTES,
    NEVER,
    ConnectionBroken,
    HttpConnection,
    Late,
    Unsent,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FakeTransport:
    """Remembers what was written; breaks at the first write when told to."""

    def __init__(self, *, breaks: bool = False, unwritten: int = 0) -> None:
        self.writes: list[list[bytes]] = []
        self.aborted = False
        self._breaks = breaks
        self._unwritten = unwritten
        self._silent = socket.socket(type=socket.SOCK_DGRAM)

    def __del__(self) -> None:
        self._silent.close()

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, parts: Any) -> None:
        self.writes.append(list(parts))
        self.aborted = self.aborted or self._breaks

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._silent

    def get_write_buffer_size(self) -> int:
        return self._unwritten


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the timers that are set."""

    timers = 0

    def call_at(self, when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, *args, **kwargs)


def opened(transport: FakeTransport) -> tuple[HttpConnection, list[HttpConnection]]:
    lost: list[HttpConnection] = []
    connection = HttpConnection(asyncio.get_running_loop(), lost.append)
    connection.connection_made(cast("asyncio.BaseTransport", transport))
    return connection, lost


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


def ask(connection: HttpConnection, body: bytes = b"", deadline: float = NEVER) -> Any:
    request = HttpRequest("POST", "http://h/", body=body)
    return connection.begin(b"HEAD", request, deadline, False)


def test_a_small_body_is_joined_to_its_head_and_a_large_one_is_not_copied() -> None:
    async def scenario() -> None:
        transport = FakeTransport()
        connection, _ = opened(transport)
        for size in (0, JOINED_BYTES, JOINED_BYTES + 1):
            ask(connection, bytes(size))
            connection.data_received(OK)
        assert [len(parts) for parts in transport.writes] == [1, 1, 2]

    run(scenario())


def test_a_first_write_that_fails_was_not_sent() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport(breaks=True))
        with pytest.raises(Unsent) as caught:
            await ask(connection)
        assert not caught.value.was_sent

    run(scenario())


def test_a_connection_that_ended_before_it_was_used_was_not_sent() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport())
        connection.data_received(b"220 mail.example ESMTP\r\n")
        with pytest.raises(Unsent, match="before a request was sent"):
            await ask(connection)

    run(scenario())


@pytest.mark.parametrize("loop", [asyncio, uvloop])
@pytest.mark.parametrize("unasked", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b""])
def test_what_waits_unread_is_not_the_answer_of_the_next_request(loop: Any, unasked: bytes) -> None:
    async def scenario() -> None:
        ours, peer = socket.socketpair()
        with peer:
            running = asyncio.get_running_loop()
            _, connection = await running.create_connection(
                lambda: HttpConnection(running, lambda _: None), sock=ours
            )
            for _ in range(2):
                asked = ask(connection)
                peer.sendall(OK)
                assert (await asked).body == b"ok"
            # No turn of the loop from here on: it has not heard of this.
            peer.sendall(unasked) if unasked else peer.shutdown(socket.SHUT_WR)
            with pytest.raises(Unsent, match="waits on it"):
                await ask(connection)
            assert not connection.usable
            assert not connection.heard

    loop.run(asyncio.wait_for(scenario(), 20))


@pytest.mark.parametrize(("unwritten", "kept"), [(0, True), (1, False)])
def test_a_connection_with_an_unwritten_request_is_not_kept(unwritten: int, kept: bool) -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport(unwritten=unwritten))
        asked = ask(connection)
        connection.data_received(OK)
        assert (await asked).body == b"ok"
        assert connection.usable is kept

    run(scenario())


def test_whatever_ends_a_connection_ends_its_exchange_and_is_told_once() -> None:
    async def scenario() -> None:
        connection, lost = opened(FakeTransport())
        asked = ask(connection)
        connection.connection_lost(ConnectionResetError(104, "x"))
        with pytest.raises(
            ConnectionBroken, match="Connection reset by peer, before the first byte"
        ):
            await asked
        assert lost == [connection]
        assert connection.lost

    run(scenario())


def test_an_end_that_is_the_answers_end_is_no_failure() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport())
        asked = ask(connection)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nall there is")
        connection.eof_received()
        connection.connection_lost(None)
        assert (await asked).body == b"all there is"
        assert not connection.usable

    run(scenario())


def test_a_broken_body_that_ends_with_its_connection_is_said_to_be_broken() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport())
        asked = ask(connection)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nno gzip")
        connection.eof_received()
        with pytest.raises(ConnectionBroken, match="its gzip body is broken"):
            await asked

    run(scenario())


def test_an_exchange_whose_waiter_has_left_leaves_no_trace() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport())
        asked = ask(connection)
        asked.cancel()
        connection.data_received(OK)
        connection.connection_lost(None)
        assert asked.cancelled()

    run(scenario())


def test_an_idle_connection_holds_nothing_of_its_last_answer() -> None:
    async def scenario() -> None:
        connection, _ = opened(FakeTransport())
        ask(connection)
        connection.data_received(OK)
        reader = connection._reader
        assert [*reader._chunks, *reader._fields, *reader._headers] == []

    run(scenario())


def test_requests_with_the_same_patience_share_one_timer() -> None:
    async def scenario() -> None:
        loop = cast("CountingLoop", asyncio.get_running_loop())
        connection, _ = opened(FakeTransport())
        before = loop.timers
        for _ in range(100):
            ask(connection, deadline=loop.time() + 600)
            connection.data_received(OK)
        assert loop.timers - before == 1
        connection.connection_lost(None)

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(scenario())


def test_a_deadline_that_comes_sooner_than_the_last_one_is_kept() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        connection, _ = opened(FakeTransport())
        ask(connection, deadline=loop.time() + 600)
        connection.data_received(OK)
        with pytest.raises(Late):
            await ask(connection, deadline=loop.time() + 0.02)
        assert not connection.usable

    run(scenario())


def test_a_timer_of_an_earlier_request_does_not_end_a_later_one() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        connection, _ = opened(FakeTransport())
        ask(connection, deadline=loop.time() + 0.02)
        connection.data_received(OK)
        asked = ask(connection, deadline=loop.time() + 600)
        await asyncio.sleep(0.06)
        assert not asked.done()
        connection.data_received(OK)
        assert (await asked).status == 200
        connection.connection_lost(None)

    run(scenario())
