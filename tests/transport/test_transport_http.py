"""Whatever can go wrong on a real socket is named by what went wrong, by every transport."""

import asyncio
import gzip
import socket
import zlib
from typing import Any

import pytest
from http_peers import WAYS, Script, Way, exchange, opened, plain, request
from transport_worlds import (
    Handler,
    answer,
    answering,
    listening,
    read_request,
    refusing_url,
)

from palestra.doctor import finding_of
from palestra.errors import CallError, DeadlineExceeded
from palestra.transport import ConnectionFailed, HttpReply, HttpRequest, RequestRefused, WrongUrl

pytestmark = pytest.mark.parametrize("way", WAYS)


async def sent(url: str, **fields: Any) -> HttpReply:
    async with opened() as http:
        return await http.send(request(url, **{"timeout_s": 5, **fields}))


def failure(way: Way, handle: Handler, *, timeout_s: float = 5) -> CallError:
    with pytest.raises(CallError) as caught:
        exchange(way, handle, timeout_s=timeout_s)
    return caught.value


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def hang_up_in_the_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-le")
    await writer.drain()


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()


async def half_in_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    await writer.drain()


async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await half(reader, writer)
    await reader.read()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer that always goes on and never ends."""
    await half(reader, writer)
    try:
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await writer.drain()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    _reset(writer)


async def reset_in_the_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await half(reader, writer)
    _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    # Lingering for no time at all is how a socket sends RST instead of FIN.
    linger = b"\1\0\0\0\0\0\0\0"
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def test_a_refused_connection_was_not_sent(way: Way) -> None:
    url = refusing_url().replace("http", way.scheme)

    with pytest.raises(ConnectionFailed, match=r"Connect call failed|refused") as caught:
        way.run(sent(url))
    assert not caught.value.was_sent
    assert url in caught.value.message
    assert "the server is running" in caught.value.hint


@pytest.mark.parametrize(
    "handle", [hang_up, hang_up_in_the_head, half, half_in_chunks, reset, reset_in_the_body]
)
def test_a_connection_that_broke_may_have_been_acted_on(way: Way, handle: Handler) -> None:
    error = failure(way, handle)

    assert isinstance(error, ConnectionFailed)
    assert error.was_sent
    assert "the connection broke before the answer came" in error.message


MALFORMED = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no number": plain(b"", "2OO OK"),
    "length is no number": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "size of a chunk is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "broken gzip": plain(b"\x1f\x8b rubbish", "200 OK", "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_answer_may_have_been_acted_on(way: Way, name: str) -> None:
    error = failure(way, answering(MALFORMED[name]))

    assert isinstance(error, ConnectionFailed)
    assert error.was_sent


def test_the_doctor_knows_what_is_no_answer(way: Way) -> None:
    error = failure(way, answering(MALFORMED["another protocol"]))

    assert finding_of(error).cause == "model.no-openai-endpoint"


@pytest.mark.parametrize("handle", [never, stall, drip])
def test_an_answer_that_does_not_come_in_time_is_a_deadline(way: Way, handle: Handler) -> None:
    error = failure(way, handle, timeout_s=0.2)

    assert isinstance(error, DeadlineExceeded)
    assert "no answer within 0.2 s" in error.message


def test_no_time_left_is_a_deadline_too(way: Way) -> None:
    assert isinstance(failure(way, never, timeout_s=0), DeadlineExceeded)


@pytest.mark.parametrize("url", ["no url", "http://", "http://[::1", "ftp://localhost/"])
def test_what_is_no_url_is_said_to_be_none(way: Way, url: str) -> None:
    with pytest.raises(WrongUrl, match="is not a URL"):
        way.run(sent(url))


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70, "ex ample"])
def test_a_name_that_does_not_resolve_was_not_sent(way: Way, host: str) -> None:
    with pytest.raises((ConnectionFailed, RequestRefused, WrongUrl)) as caught:
        way.run(sent(f"{way.scheme}://{host}/"))
    assert not getattr(caught.value, "sent", False)


def test_any_status_is_an_answer_with_lower_case_headers_and_its_cookies(way: Way) -> None:
    cookies = ("Set-Cookie: a=1; path=/; httponly", "Set-Cookie: b=x==.y; path=/")

    found = exchange(way, answering(answer(503, b"busy", "Retry-After: 3", *cookies)))

    assert (found.status, found.body) == (503, b"busy")
    assert found.headers["retry-after"] == "3"
    assert found.cookies == {"a": "1", "b": "x==.y"}


@pytest.mark.parametrize(
    ("line", "cookies"),
    [
        ('a="x,y"; path=/', {"a": "x,y"}),
        ('a={"b":1}', {"a": '{"b":1}'}),
        ("a=b c; Expires=Wed, 09 Jun 2100 10:18:14 GMT", {"a": "b c"}),
        ("a=", {"a": ""}),
        ("a", {}),
    ],
)
def test_cookies_are_read_as_browsers_do(way: Way, line: str, cookies: dict[str, str]) -> None:
    assert exchange(way, answering(answer(200, b"", f"Set-Cookie: {line}"))).cookies == cookies


def test_a_redirect_is_not_followed(way: Way) -> None:
    assert exchange(way, answering(answer(307, b"", "location: /elsewhere"))).status == 307


def test_cookies_of_one_call_are_not_sent_with_the_next(way: Way) -> None:
    script = Script([plain(b"", "200 OK", "set-cookie: kept=by-nobody"), plain()])

    async def twice() -> None:
        async with way.misbehaving(script) as url, opened() as http:
            await http.send(HttpRequest("GET", url, cookies={"own": "1", "more": "2"}))
            await http.send(HttpRequest("GET", url))

    way.run(twice())

    assert b"cookie: own=1; more=2\r\n" in script.heads[0].replace(b"Cookie", b"cookie")
    assert b"cookie" not in script.heads[1].lower()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
RAW = zlib.compressobj(wbits=-15)
BODIES = {
    "with a length": (plain(b"ok"), b"ok"),
    "empty": (plain(b""), b""),
    "in chunks": (CHUNKED + b"1\r\no\r\n1;ext=1\r\nk\r\n0\r\n\r\n", b"ok"),
    "in chunks, with a trailer": (CHUNKED + b"2\r\nok\r\n0\r\nX: late\r\n\r\n", b"ok"),
    "until it hangs up": (b"HTTP/1.1 200 OK\r\n\r\nok", b"ok"),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    "with bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", b"ok"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "304 with the length of what it is not": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        b"",
    ),
    "after 100 Continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"ok"), b"ok"),
    "after 103 Early Hints": (b"HTTP/1.1 103 X\r\nLink: </x>\r\n\r\n" + plain(b"ok"), b"ok"),
    "with an offer to upgrade": (
        plain(b"ok", "200 OK", "Upgrade: h2c", "Connection: Upgrade"),
        b"ok",
    ),
    "gzip": (plain(gzip.compress(b"ok" * 99), "200 OK", "Content-Encoding: gzip"), b"ok" * 99),
    "deflate": (
        plain(zlib.compress(b"ok" * 99), "200 OK", "Content-Encoding: deflate"),
        b"ok" * 99,
    ),
    "bare deflate": (
        plain(RAW.compress(b"ok") + RAW.flush(), "200 OK", "Content-Encoding: deflate"),
        b"ok",
    ),
    "with a character set for an encoding": (
        plain(b"ok", "200 OK", "Content-Encoding: utf-8"),
        b"ok",
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_ends_where_its_answer_says(way: Way, kind: str) -> None:
    raw, body = BODIES[kind]

    found = exchange(way, answering(raw), timeout_s=5)

    assert found.body == body
    assert "x" not in found.headers
    assert "link" not in found.headers


@pytest.mark.parametrize("kind", BODIES)
def test_an_answer_may_come_byte_by_byte(way: Way, kind: str) -> None:
    raw, body = BODIES[kind]

    async def bytewise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for index in range(len(raw)):
            writer.write(raw[index : index + 1])
            await writer.drain()
            await asyncio.sleep(0)

    assert exchange(way, bytewise, timeout_s=5).body == body


def test_the_answer_to_head_has_no_body(way: Way) -> None:
    script = Script([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", plain(b"next")])

    async def both() -> list[HttpReply]:
        async with way.misbehaving(script) as url, opened() as http:
            return [await http.send(request(url, method)) for method in ("HEAD", "GET")]

    assert [reply.body for reply in way.run(both())] == [b"", b"next"]


async def in_a_row(
    way: Way, script: Script, count: int, pause: asyncio.Event | None = None
) -> list[bytes]:
    async with way.misbehaving(script) as url, opened() as http:
        bodies = []
        for _ in range(count):
            bodies.append((await http.send(request(url, timeout_s=5))).body)
            if pause is not None:
                await pause.wait()
        return bodies


def test_a_connection_serves_one_request_after_the_other(way: Way) -> None:
    script = Script([plain(b"1"), plain(b"2"), plain(b"3")])

    assert way.run(in_a_row(way, script, 3)) == [b"1", b"2", b"3"]
    assert script.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        plain(b"1", "200 OK", "Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1",
        plain(b"1") + plain(b"of nobody's question"),
    ],
)
def test_what_follows_an_answer_never_meets_the_next_request(way: Way, first: bytes) -> None:
    script = Script([first, plain(b"2")])

    assert way.run(in_a_row(way, script, 2)) == [b"1", b"2"]
    assert script.connections == 2


def test_a_connection_that_ended_while_nobody_used_it_is_not_used_again(way: Way) -> None:
    script = Script([plain(b"1"), plain(b"2")], one_per_connection=True)

    async def scenario() -> list[bytes]:
        async with way.misbehaving(script) as url, opened() as http:
            first = await http.send(request(url))
            # Its end has arrived by the time another connection was made and answered.
            await asyncio.sleep(0.05)
            return [first.body, (await http.send(request(url))).body]

    assert way.run(scenario()) == [b"1", b"2"]


def test_an_abandoned_answer_does_not_serve_the_next_request(way: Way) -> None:
    left = asyncio.Event()
    asked = asyncio.Event()

    async def slow_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if asked.is_set():
            writer.write(plain(b"the second"))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe ")
        asked.set()
        await reader.read()
        left.set()

    async def scenario() -> bytes:
        async with way.misbehaving(slow_once) as url, opened() as http:
            first = asyncio.create_task(http.send(request(url)))
            await asked.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await left.wait()
            return (await http.send(request(url))).body

    assert way.run(scenario()) == b"the second"


def test_an_answer_that_comes_before_the_body_was_read_is_heard(way: Way) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(b"too large", "413 X"))
        await writer.drain()
        await heard.wait()

    heard = asyncio.Event()

    async def scenario() -> HttpReply:
        async with way.misbehaving(refuse) as url, opened() as http:
            try:
                return await http.send(request(url, body=bytes(30_000_000), timeout_s=10))
            finally:
                heard.set()

    found = way.run(scenario())

    assert (found.status, found.body) == (413, b"too large")


def test_large_bodies_pass_both_ways(way: Way) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        writer.write(plain(await reader.readexactly(length)))
        await writer.drain()

    body = b"0123456789abcdef" * 500_000

    assert exchange(way, echo, body=body).body == body


@pytest.mark.slow
def test_a_thousand_at_once_get_each_their_own_answer(way: Way) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await read_request(reader)
                writer.write(plain(head.split(b" ")[1]))
        except asyncio.IncompleteReadError:
            pass

    async def scenario() -> list[bytes]:
        async with (
            listening(echo, "127.0.0.1", tls=way.server_tls) as port,
            opened(limit_per_host=0) as http,
        ):
            url = f"{way.scheme}://127.0.0.1:{port}"
            asked = [http.send(request(f"{url}/{n}", timeout_s=20)) for n in range(1000)]
            return [reply.body for reply in await asyncio.gather(*asked)]

    assert way.run(scenario()) == [b"/%d" % n for n in range(1000)]


def test_no_more_than_the_limit_are_asked_of_one_host_at_once(way: Way) -> None:
    at_once = most = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        try:
            while True:
                await read_request(reader)
                at_once += 1
                most = max(most, at_once)
                await asyncio.sleep(0.001)
                at_once -= 1
                writer.write(plain())
        except asyncio.IncompleteReadError:
            pass

    async def scenario() -> None:
        async with way.misbehaving(count) as url, opened(limit_per_host=3) as http:
            await asyncio.gather(*(http.send(request(url)) for _ in range(30)))

    way.run(scenario())

    assert most == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"x": "a\r\nSmuggled: 1"}},
        {"headers": {"x": "a\nSmuggled: 1"}},
        {"headers": {"x\r\nSmuggled": "1"}},
        {"headers": {"x": "\0"}},
        {"cookies": {"a": "b\r\nSmuggled: 1"}},
    ],
)
def test_what_would_smuggle_a_header_is_refused_before_anything_is_sent(
    way: Way, fields: dict[str, Any]
) -> None:
    script = Script([plain()])

    with pytest.raises(RequestRefused):
        exchange(way, script, **fields)

    assert script.heads == []


@pytest.mark.parametrize("way_to_close", ["shut", "reset"])
def test_a_peer_that_hangs_up_at_once_is_a_failed_connection(way: Way, way_to_close: str) -> None:
    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if way_to_close == "reset":
            _reset(writer)

    assert isinstance(failure(way, at_once), ConnectionFailed)


def test_closing_ends_what_is_under_way(way: Way) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await reader.read()

        async with way.misbehaving(wait) as url, opened() as http:
            asking = asyncio.create_task(http.send(request(url)))
            await asked.wait()
            await http.aclose()
            with pytest.raises(ConnectionFailed):
                await asking

    way.run(scenario())


def test_after_closing_a_request_opens_anew(way: Way) -> None:
    script = Script([plain(b"1"), plain(b"2")])

    async def scenario() -> bytes:
        async with way.misbehaving(script) as url, opened() as http:
            await http.send(request(url))
            await http.aclose()
            return (await http.send(request(url))).body

    assert way.run(scenario()) == b"2"
