"""Whatever can go wrong on a real socket is named by what went wrong."""

import asyncio

import pytest
from transport_worlds import (
    Handler,
    answer,
    answering,
    misbehaving,
    read_request,
    refusing_url,
)

from palestra.errors import CallError, DeadlineExceeded, WrongSetting
from palestra.transport import AiohttpTransport, ConnectionFailed, HttpReply


async def sent(url: str, *, timeout_s: float | None = 5) -> HttpReply:
    http = AiohttpTransport()
    try:
        return await http.send("POST", url, body=b"{}", timeout_s=timeout_s)
    finally:
        await http.aclose()


def failure(handle: Handler, *, timeout_s: float = 5) -> CallError:
    async def attempt() -> None:
        async with misbehaving(handle) as url:
            await sent(url, timeout_s=timeout_s)

    with pytest.raises(CallError) as caught:
        asyncio.run(attempt())
    return caught.value


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()


async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await half(reader, writer)
    await reader.read()


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await writer.drain()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.transport.abort()


def test_a_refused_connection_was_not_sent() -> None:
    url = refusing_url()

    with pytest.raises(ConnectionFailed, match=r"Connect call failed|refused") as caught:
        asyncio.run(sent(url))
    assert not caught.value.sent
    assert url in caught.value.message
    assert "is the server running" in caught.value.hint


@pytest.mark.parametrize("handle", [hang_up, half, no_http, reset])
def test_a_connection_that_broke_may_have_been_acted_on(handle: Handler) -> None:
    error = failure(handle)

    assert isinstance(error, ConnectionFailed)
    assert error.sent
    assert "the connection broke before the answer came" in error.message


@pytest.mark.parametrize("handle", [never, stall])
def test_an_answer_that_does_not_come_in_time_is_a_deadline(handle: Handler) -> None:
    error = failure(handle, timeout_s=0.1)

    assert isinstance(error, DeadlineExceeded)
    assert "no answer within 0.1 s" in error.message


def test_no_time_left_is_a_deadline_too() -> None:
    assert isinstance(failure(never, timeout_s=0), DeadlineExceeded)


@pytest.mark.parametrize("url", ["no url", "http://", "http://[::1", "ftp://localhost/"])
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    with pytest.raises(WrongSetting, match="is not a URL"):
        asyncio.run(sent(url))


def test_a_name_that_does_not_resolve_was_not_sent() -> None:
    with pytest.raises(ConnectionFailed) as caught:
        asyncio.run(sent("http://nowhere.invalid/"))
    assert not caught.value.sent


def test_any_status_is_an_answer_with_lower_case_headers_and_its_cookies() -> None:
    async def reply() -> HttpReply:
        cookies = ("Set-Cookie: a=1; path=/; httponly", "Set-Cookie: b=x==.y; path=/")
        handle = answering(answer(503, b"busy", "Retry-After: 3", *cookies))
        async with misbehaving(handle) as url:
            return await sent(url)

    found = asyncio.run(reply())

    assert (found.status, found.body) == (503, b"busy")
    assert found.headers["retry-after"] == "3"
    assert found.cookies == {"a": "1", "b": "x==.y"}


def test_a_redirect_is_not_followed() -> None:
    async def reply() -> HttpReply:
        async with misbehaving(answering(answer(307, b"", "location: /elsewhere"))) as url:
            return await sent(url)

    assert asyncio.run(reply()).status == 307


def test_cookies_of_one_call_are_not_sent_with_the_next() -> None:
    heads: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await read_request(reader))
        writer.write(answer(200, b"", "set-cookie: kept=by-nobody"))
        await writer.drain()

    async def twice() -> None:
        http = AiohttpTransport()
        async with misbehaving(note) as url:
            await http.send("GET", url, cookies={"own": "1"})
            await http.send("GET", url)
        await http.aclose()

    asyncio.run(twice())

    assert b"cookie: own=1" in heads[0].lower()
    assert b"cookie" not in heads[1].lower()
