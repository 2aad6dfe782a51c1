"""Which connection a request goes out on, what is sent again, and what is never left behind."""

import asyncio
import gc
import gzip
import os
import resource
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from http_peers import Script, Way, both_loops, opened, plain, request
from transport_worlds import (
    Handler,
    answering,
    listening,
    misbehaving,
    read_request,
    refusing_url,
    url_of,
)

from palestra.errors import DeadlineExceeded
from palestra.transport import ConnectionFailed, HttpClient, HttpReply, HttpRequest
from palestra.transport.h1.connection import HttpConnection
from palestra.transport.h1.dialing import Address, Dialer
from palestra.transport.h1.pool import IDLE_S, MOST_CONNECTING, HostConnections


async def answered(http: Any, *requests: HttpRequest) -> list[HttpReply]:
    return [await http.send(asked) for asked in requests]


@pytest.fixture
def no_garbage() -> None:
    """Sockets that earlier tests left to collect are gone, before a scenario's time begins."""
    gc.collect()


def open_sockets() -> int:
    """Descriptors of this process that are sockets."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(descriptor.readlink()).startswith("socket:")
    return count


# A kept connection that dies as a request goes out on it.


def hanging_up_on_the_second() -> Script:
    """The first answer, then silence for the request that follows on its connection."""
    return Script([plain(b"1"), None, plain(b"2"), None])


def second_request(way: Way, script: Script, method: str, **fields: Any) -> bytes:
    async def scenario() -> bytes:
        async with misbehaving(script) as url, opened() as http:
            await http.send(request(url))
            return (await http.send(request(url, method, timeout_s=5, **fields))).body

    return way.run(scenario())


@both_loops
@pytest.mark.parametrize(
    ("method", "fields"), [("GET", {}), ("PUT", {}), ("POST", {"repeatable": True})]
)
def test_what_may_be_repeated_goes_out_again_at_once(
    way: Way, method: str, fields: dict[str, Any]
) -> None:
    script = hanging_up_on_the_second()

    assert second_request(way, script, method, **fields) == b"2"
    assert script.connections == 2


@both_loops
def test_what_may_have_been_acted_on_is_not_repeated(way: Way) -> None:
    script = hanging_up_on_the_second()

    with pytest.raises(ConnectionFailed, match="before the first byte") as caught:
        second_request(way, script, "POST")

    assert caught.value.was_sent
    assert script.connections == 1


@both_loops
def test_nothing_is_repeated_twice(way: Way) -> None:
    script = Script([plain(b"1"), None, None, plain(b"too late")])

    with pytest.raises(ConnectionFailed) as caught:
        second_request(way, script, "GET")

    assert caught.value.was_sent
    assert script.connections == 2


@both_loops
def test_one_stale_connection_is_enough_to_distrust_the_others(way: Way) -> None:
    script = Script([plain(b"1"), plain(b"2"), None, None, plain(b"too late")])

    async def scenario() -> None:
        async with misbehaving(script) as url, opened() as http:
            await asyncio.gather(http.send(request(url)), http.send(request(url)))
            await http.send(request(url, "GET", timeout_s=5))

    with pytest.raises(ConnectionFailed):
        way.run(scenario())
    assert script.connections == 3
    assert len(script.heads) == 4


@both_loops
def test_a_fresh_connection_that_dies_is_no_stale_one(way: Way) -> None:
    script = Script([None, plain()])

    async def scenario() -> None:
        async with misbehaving(script) as url, opened() as http:
            await http.send(request(url, "GET"))

    with pytest.raises(ConnectionFailed):
        way.run(scenario())
    assert script.connections == 1


@both_loops
def test_an_answer_that_has_begun_is_not_asked_for_again(way: Way) -> None:
    asked: list[bytes] = []

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (plain(b"1"), b"HTTP/1.1 200 OK\r\nContent-Le"):
            asked.append(await read_request(reader))
            writer.write(answer)
            await writer.drain()

    async def scenario() -> None:
        async with misbehaving(begin) as url, opened() as http:
            await answered(http, request(url), request(url, repeatable=True))

    with pytest.raises(ConnectionFailed, match="within the answer's head"):
        way.run(scenario())
    assert len(asked) == 2


@both_loops
def test_a_server_that_was_replaced_answers_the_next_request(way: Way) -> None:
    async def scenario() -> bytes:
        async with opened() as http:
            # The old one hangs up on the second request, when its listener is long gone.
            async with listening(Script([plain(b"old"), None]), "127.0.0.1") as port:
                asked = request(f"http://127.0.0.1:{port}/", repeatable=True)
                await http.send(asked)
            async with listening(Script([plain(b"new")]), "127.0.0.1", port):
                return (await http.send(asked)).body

    assert way.run(scenario()) == b"new"


@both_loops
def test_what_speaks_unasked_is_not_asked(way: Way) -> None:
    spoke = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(plain(b"mine"))
        await writer.drain()
        if spoke.is_set():
            return
        await asyncio.sleep(0.02)
        writer.write(plain(b"of nobody's question"))
        assert await reader.read() == b""
        spoke.set()

    async def scenario() -> list[bytes]:
        async with misbehaving(late) as url, opened() as http:
            first = await http.send(request(url))
            await spoke.wait()
            return [first.body, (await http.send(request(url))).body]

    assert way.run(scenario()) == [b"mine", b"mine"]


@both_loops
def test_a_late_refusal_that_nobody_has_read_is_no_answer(way: Way) -> None:
    peers: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        peers.append(writer.get_extra_info("socket").fileno())
        writer.write(plain(b"mine"))
        assert await reader.read() == b""

    async def scenario() -> list[bytes]:
        async with misbehaving(answer) as url, opened() as http:
            first = await http.send(request(url))
            os.write(peers[0], plain(b"late", "408 Request Timeout", "Connection: close"))
            return [first.body, (await http.send(request(url))).body]

    assert way.run(scenario()) == [b"mine", b"mine"]


# The pool.


class FakeConnection:
    """As much of a connection as its host looks at."""

    def __init__(self) -> None:
        self.usable = True
        self.idle_since = 0.0

    def abort(self) -> None:
        self.usable = False


async def never_dial() -> Any:
    raise AssertionError("there is an idle one")


def host_with(*connections: Any) -> HostConnections:
    host = HostConnections(never_dial, rooms=())
    for since, connection in enumerate(connections):
        host.give(connection, float(since))
    return host


def test_the_connection_used_last_is_used_next() -> None:
    first, second = FakeConnection(), FakeConnection()
    host: Any = host_with(first, second)

    assert host.take(2.0) is second
    assert host.take(2.0) is first
    assert host.take(2.0) is None


def test_a_closed_connection_is_passed_over() -> None:
    first, second = FakeConnection(), FakeConnection()
    host: Any = host_with(first, second)
    second.usable = False

    assert host.take(2.0) is first


def test_an_old_connection_is_closed_instead_of_used() -> None:
    old = FakeConnection()
    host = host_with(old)

    assert host.take(IDLE_S + 1) is None
    assert not old.usable


def test_sweeping_closes_the_old_and_forgets_the_dead() -> None:
    old, dead, young = FakeConnection(), FakeConnection(), FakeConnection()
    host: Any = host_with(old, dead, young)
    dead.usable = False

    assert host.sweep(IDLE_S + 1.5)
    assert not old.usable
    assert young.usable
    assert not host.sweep(IDLE_S + 2.5)
    assert host.take(IDLE_S + 2.5) is None


@both_loops
def test_idle_connections_are_closed_without_another_request(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palestra.transport.h1.client.IDLE_S", 0.03)
    monkeypatch.setattr("palestra.transport.h1.pool.IDLE_S", 0.03)
    gone = asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(plain())
        assert await reader.read() == b""
        gone.set()

    async def scenario() -> None:
        async with misbehaving(once) as url, opened() as http:
            await http.send(request(url))
            await gone.wait()

    way.run(scenario())


def test_a_host_is_needed_while_an_exchange_with_it_is_under_way() -> None:
    host = host_with()

    assert host.try_enter()
    assert host.sweep(0.0)
    host.leave()
    assert not host.sweep(0.0)


@both_loops
def test_hosts_are_forgotten_that_nobody_speaks_to(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palestra.transport.h1.client.IDLE_S", 0.03)
    monkeypatch.setattr("palestra.transport.h1.pool.IDLE_S", 0.03)

    async def scenario() -> None:
        async with misbehaving(Script([plain()] * 2)) as url, opened() as http:
            with pytest.raises(ConnectionFailed):
                await http.send(request(refusing_url()))
            await http.send(request(url))
            while http._hosts:  # noqa: ASYNC110  # nothing tells that a host was forgotten
                await asyncio.sleep(0.01)
            assert (await http.send(request(url))).status == 200

    way.run(scenario())


@both_loops
def test_sockets_do_not_wait_to_send(way: Way) -> None:
    async def scenario() -> list[int]:
        async with misbehaving(Script([plain()])) as url, opened() as http:
            await http.send(request(url))
            return [
                connection._transport.get_extra_info("socket").getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NODELAY
                )
                for connection in http._opened
            ]

    assert way.run(scenario()) == [1]


@pytest.mark.slow
@both_loops
@pytest.mark.usefixtures("no_garbage")
def test_closing_leaves_no_socket(way: Way) -> None:
    async def scenario() -> tuple[int, int]:
        async with misbehaving(Script([plain()] * 20)) as url:
            before = open_sockets()
            async with opened() as http:
                await asyncio.gather(*(http.send(request(url)) for _ in range(20)))
            await asyncio.sleep(0.05)
            return before, open_sockets()

    before, after = way.run(scenario())

    assert after <= before


# Connecting.


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """A listener whose queue is full: connects to it hang, as they do to a host that is gone."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        with socket.create_connection(sock.getsockname()):
            yield url_of(sock)


@both_loops
def test_a_connect_that_hangs_ends_at_the_deadline(way: Way) -> None:
    async def scenario() -> float:
        async with deaf() as url, opened() as http:
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s \(no connection by then\)"):
                await http.send(request(url, timeout_s=0.2))
            return time.monotonic() - started

    assert way.run(scenario()) < 5


@both_loops
def test_a_connect_that_hangs_is_given_up(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palestra.transport.h1.dialing.CONNECT_S", 0.1)

    async def scenario() -> None:
        async with deaf() as url, opened() as http:
            await http.send(request(url, timeout_s=10))

    with pytest.raises(ConnectionFailed, match="no connection within 0 s") as caught:
        way.run(scenario())
    assert not caught.value.was_sent


@pytest.mark.slow
@both_loops
@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("live_first", [True, False])
def test_a_dead_address_of_a_name_holds_nothing_up(
    way: Way, monkeypatch: pytest.MonkeyPatch, live_first: bool
) -> None:
    addresses = ["127.0.0.2", "127.0.0.1"] if live_first else ["127.0.0.1", "127.0.0.2"]

    async def resolved(_host: str, _port: int) -> list[str]:
        return addresses

    monkeypatch.setattr("palestra.transport.h1.dialing.addresses_of", resolved)

    async def scenario() -> tuple[HttpReply, float, int]:
        async with deaf() as url, opened() as http:
            port = int(url.rpartition(":")[2])
            async with listening(Script([plain()]), "127.0.0.2", port):
                before, started = open_sockets(), time.monotonic()
                reply = await http.send(request(f"http://two.example:{port}", timeout_s=15))
                lasted_s = time.monotonic() - started
                return reply, lasted_s, open_sockets() - before

    reply, lasted_s, more_sockets = way.run(scenario())

    assert reply.status == 200
    assert lasted_s < 5
    assert more_sockets == 2  # of the exchange: the client's and the server's


@both_loops
def test_a_name_with_dead_addresses_alone_is_a_failed_connection(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolved(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1", "127.0.0.2"]

    monkeypatch.setattr("palestra.transport.h1.dialing.addresses_of", resolved)
    refusing = refusing_url()

    async def scenario() -> None:
        async with opened() as http:
            await http.send(request(refusing.replace("127.0.0.1", "two.example")))

    with pytest.raises(ConnectionFailed, match="refused") as caught:
        way.run(scenario())
    assert not caught.value.was_sent


@both_loops
@pytest.mark.usefixtures("no_garbage")
def test_so_many_connect_at_once_and_no_more(way: Way) -> None:
    async def scenario() -> int:
        async with deaf() as url, opened() as http:
            before = open_sockets()
            asked = [
                asyncio.create_task(http.send(request(url))) for _ in range(MOST_CONNECTING + 99)
            ]
            for _ in range(20):
                await asyncio.sleep(0)
            during = open_sockets() - before
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            await asyncio.sleep(0.05)
            assert open_sockets() <= before
            return during

    assert way.run(scenario()) == MOST_CONNECTING


@both_loops
def test_who_waits_to_connect_takes_what_became_idle(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palestra.transport.h1.pool.MOST_CONNECTING", 1)
    script = Script([plain()] * 50)

    async def scenario() -> None:
        async with misbehaving(script) as url, opened() as http:
            await asyncio.gather(*(http.send(request(url)) for _ in range(50)))

    way.run(scenario())

    assert script.connections < 50


@both_loops
def test_waiting_for_a_place_ends_at_the_deadline_and_gives_it_up(way: Way) -> None:
    free = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await free.wait()
        writer.write(plain())
        await writer.drain()

    async def scenario() -> int:
        async with misbehaving(hold) as url, opened(limit=5, limit_per_host=1) as http:
            first = asyncio.create_task(http.send(request(url)))
            await asyncio.sleep(0)
            with pytest.raises(DeadlineExceeded, match="all connections were in use"):
                await http.send(request(url, timeout_s=0.05))
            free.set()
            await first
            return (await http.send(request(url, timeout_s=5))).status

    assert way.run(scenario()) == 200


@both_loops
def test_a_waiting_request_that_is_cancelled_takes_no_place_with_it(way: Way) -> None:
    async def scenario() -> list[HttpReply]:
        async with misbehaving(Script([plain()] * 9)) as url, opened(limit=1) as http:
            asked = [asyncio.create_task(http.send(request(url))) for _ in range(5)]
            await asyncio.sleep(0)
            for task in asked[:3]:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            return await answered(http, request(url, timeout_s=5), request(url, timeout_s=5))

    assert [reply.status for reply in way.run(scenario())] == [200, 200]


@both_loops
@pytest.mark.parametrize("gives_up", [True, False])
def test_who_waits_for_the_whole_leaves_the_host_its_place(way: Way, gives_up: bool) -> None:
    free = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await free.wait()
        writer.write(plain())
        await writer.drain()

    async def scenario() -> int:
        async with (
            misbehaving(hold) as held,
            misbehaving(Script([plain()] * 2)) as other,
            opened(limit=1, limit_per_host=1) as http,
        ):
            holding = asyncio.create_task(http.send(request(held)))
            await asyncio.sleep(0)
            waiting = asyncio.create_task(http.send(request(other, timeout_s=5)))
            await asyncio.sleep(0)
            if gives_up:
                waiting.cancel()
            free.set()
            await asyncio.gather(holding, waiting, return_exceptions=True)
            return (await http.send(request(other, timeout_s=5))).status

    assert way.run(scenario()) == 200


@both_loops
def test_a_name_is_looked_up_for_each_connection(way: Way) -> None:
    async def scenario() -> bytes:
        async with misbehaving(Script([plain(b"by name")])) as url, opened() as http:
            return (await http.send(request(url.replace("127.0.0.1", "localhost")))).body

    assert way.run(scenario()) == b"by name"


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
@both_loops
def test_ipv6_is_spoken(way: Way) -> None:
    async def scenario() -> bytes:
        async with listening(Script([plain(b"six")]), "::1") as port, opened() as http:
            return (await http.send(request(f"http://[::1]:{port}/"))).body

    assert way.run(scenario()) == b"six"


@both_loops
def test_a_process_without_descriptors_says_so(way: Way) -> None:
    async def scenario() -> None:
        async with misbehaving(Script([plain()])) as url, opened() as http:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                await http.send(request(url))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with pytest.raises(ConnectionFailed, match="Too many open files") as caught:
        way.run(scenario())
    assert not caught.value.was_sent


class KeepingAlive(BaseHTTPRequestHandler):
    """Answers on a connection that stays open, whatever becomes of event loops."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@both_loops
def test_under_another_event_loop_it_begins_anew(way: Way) -> None:
    http = HttpClient()
    with ThreadingHTTPServer(("127.0.0.1", 0), KeepingAlive) as server:
        server.daemon_threads = True
        server.block_on_close = False
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        url = url_of(server.socket)
        found = [way.run(http.send(request(url, "GET", timeout_s=5))).body for _ in range(2)]
        server.shutdown()
        serving.join(10)
    # The first loop left a connection open; its warnings belong to this test.
    del http
    gc.collect()

    assert found == [b"ok", b"ok"]


@both_loops
def test_a_peer_that_stops_in_the_middle_of_a_request_ends_it(way: Way) -> None:
    over = asyncio.Event()

    async def half_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        await over.wait()

    async def scenario() -> None:
        async with misbehaving(half_closed) as url, opened() as http:
            try:
                await http.send(request(url, body=bytes(30_000_000), timeout_s=15))
            finally:
                over.set()

    with pytest.raises(ConnectionFailed, match="the peer closed it, before the first byte"):
        way.run(scenario())


def test_a_connection_that_ended_while_it_was_opened_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with misbehaving(Script([plain()])) as url, opened() as http:

            async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
                connection = await Dialer(None).dial(address, make)
                connection.abort()
                await asyncio.sleep(0.01)
                return connection

            http._dialer.dial = dial  # type: ignore[method-assign]
            with pytest.raises(ConnectionFailed):
                await http.send(request(url))
            assert not http._opened

    asyncio.run(scenario())


@both_loops
@pytest.mark.parametrize("closed", [1, 2])
def test_a_connection_that_is_closed_before_anything_was_asked_is_opened_once_more(
    way: Way, closed: int
) -> None:
    dialed = 0

    async def hang_up_or_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if dialed > closed:
            await answering(plain())(reader, writer)

    async def scenario() -> HttpReply:
        async with misbehaving(hang_up_or_answer) as url, opened() as http:

            async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
                nonlocal dialed
                dialed += 1
                connection = await Dialer(None).dial(address, make)
                for _ in range(10_000 if dialed <= closed else 0):
                    if connection.lost:
                        break
                    await asyncio.sleep(0)
                return connection

            http._dialer.dial = dial  # type: ignore[method-assign]
            return await http.send(request(url, "POST"))

    if closed == 1:
        assert way.run(scenario()).status == 200
    else:
        with pytest.raises(ConnectionFailed) as caught:
            way.run(scenario())
        assert not caught.value.was_sent
    assert dialed == 2


# Deadlines.


@both_loops
def test_each_request_has_its_own_deadline_on_a_kept_connection(way: Way) -> None:
    script = Script([plain()] * 9)

    async def scenario() -> float:
        async with misbehaving(then_silent(script, 4)) as url, opened() as http:
            for timeout_s in (None, 60, 0.5, 60):
                await http.send(request(url, timeout_s=timeout_s))
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await http.send(request(url, timeout_s=0.7))
            return time.monotonic() - started

    assert 0.65 < way.run(scenario()) < 5


def then_silent(script: Script, answers: int) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            await read_request(reader)
            writer.write(script.answers.pop(0))  # type: ignore[arg-type]
        await reader.read()

    return handle


@both_loops
def test_a_late_answer_says_how_far_it_had_come(way: Way) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        await reader.read()

    async def scenario() -> None:
        async with misbehaving(half) as url, opened() as http:
            await http.send(request(url, timeout_s=0.2))

    with pytest.raises(DeadlineExceeded, match=r"after 3 of 100 bytes of the answer's body"):
        way.run(scenario())


# A peer that nobody here wrote.


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Says what it was asked, in chunks when the path says so."""
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    said = b"%b %b %b" % (scope["method"].encode(), scope["raw_path"], body)
    headers = [] if b"chunks" in scope["raw_path"] else [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for byte in range(0, len(said), 1000):
        part = {"type": "http.response.body", "body": said[byte : byte + 1000], "more_body": True}
        await send(part)
    await send({"type": "http.response.body"})


@pytest.mark.slow
@both_loops
@pytest.mark.parametrize("parser", ["httptools", "h11"])
@pytest.mark.parametrize("path", ["/plain", "/chunks"])
def test_uvicorn_and_we_understand_each_other(way: Way, parser: Any, path: str) -> None:
    bodies = [b"", b"{}", bytes(range(256)) * 5000]

    async def scenario() -> list[HttpReply]:
        sock = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_level="warning", http=parser)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([sock]))
        async with opened() as http:
            asked = [request(url_of(sock) + path, body=body, timeout_s=20) for body in bodies]
            try:
                one_by_one = await answered(http, *asked)
                return one_by_one + await asyncio.gather(*map(http.send, asked * 10))
            finally:
                server.should_exit = True
                await serving

    found = [reply.body for reply in way.run(scenario())]

    assert found == [b"POST %b %b" % (path.encode(), body) for body in bodies * 11]


# What only some requests want.


@both_loops
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_read_up_to_its_limit(way: Way, chunked: bool) -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 5000
    if chunked:
        endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n" + b"x" * 5000
    script = Script([endless, plain(b"short")])

    async def scenario() -> list[bytes]:
        async with misbehaving(script) as url, opened() as http:
            asked = request(url, body_limit=3000, timeout_s=5)
            return [(await http.send(asked)).body for _ in range(2)]

    assert way.run(scenario()) == [b"x" * 3000, b"short"]
    assert script.connections == 2


@both_loops
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_a_compressed_body_is_unpacked_up_to_its_limit(way: Way, cut: bool) -> None:
    packed = gzip.compress(bytes(range(256)) * 40_000 if not cut else os.urandom(50_000))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    script = Script([head % len(packed) + packed])

    async def scenario() -> bytes:
        async with misbehaving(script) as url, opened() as http:
            return (await http.send(request(url, body_limit=20_000, timeout_s=5))).body

    body = way.run(scenario())
    assert 19_000 < len(body) <= 20_000


@both_loops
def test_only_addresses_that_resolve_names_are_connected_to(way: Way) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        if host == "nowhere.example":
            raise OSError("nowhere.example is no public address")
        return ["127.0.0.2", "127.0.0.1"]

    async def scenario() -> bytes:
        async with misbehaving(Script([plain(b"ok")])) as url, opened(resolve=resolve) as http:
            with pytest.raises(ConnectionFailed, match="no public address"):
                await http.send(request(url.replace("127.0.0.1", "nowhere.example")))
            return (await http.send(request(url.replace("127.0.0.1", "a.example")))).body

    assert way.run(scenario()) == b"ok"
