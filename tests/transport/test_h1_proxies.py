"""Which proxy a URL goes through, what it is told, and what is said when it does not answer.

`127.1` is this machine for the resolver, and for us a name like any other: so that a request for
it goes through a proxy.
"""

import asyncio
import base64
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from foreign_servers import program
from http_peers import Script, both_loops, opened, plain, request
from tls_authority import server_tls
from transport_worlds import Handler, answering, misbehaving, read_request

from palestra.errors import DeadlineExceeded, WrongSetting
from palestra.transport import ConnectionFailed, HttpReply, HttpRequest
from palestra.transport.h1.proxies import Proxies

PROXY = "http://proxy.example:3128"
BOTH = {"HTTP_PROXY": PROXY, "https_proxy": "http://secure.example:1"}


@pytest.mark.parametrize(
    ("variables", "scheme", "host", "proxy"),
    [
        ({}, "http", "a.example", None),
        (BOTH, "http", "a.example", "proxy.example"),
        (BOTH, "https", "a.example", "secure.example"),
        ({"HTTP_PROXY": PROXY}, "https", "a.example", None),
        ({"HTTP_PROXY": "proxy.example:3128"}, "http", "a.example", "proxy.example"),
        ({"HTTP_PROXY": PROXY, "http_proxy": "http://b.example:1"}, "http", "a.com", "b.example"),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http", "a.example", None),
        (BOTH, "http", "localhost", None),
        (BOTH, "http", "x.localhost", None),
        (BOTH, "http", "127.0.0.1", None),
        (BOTH, "http", "0.0.0.0", None),
        (BOTH, "http", "::1", None),
        (BOTH, "http", "10.2.3.4", None),
        (BOTH, "http", "node17", None),
        (BOTH, "http", "8.8.8.8", "proxy.example"),
        (BOTH, "http", "2600::1", "proxy.example"),
    ],
)
def test_the_environment_names_the_proxy(
    variables: dict[str, str], scheme: str, host: str, proxy: str | None
) -> None:
    chosen = Proxies(variables).proxy_for(scheme, host, 80)

    assert (chosen.host if chosen else None) == proxy


@pytest.mark.parametrize(
    ("exceptions", "host", "excepted"),
    [
        ("*", "a.example", True),
        ("a.example", "a.example", True),
        ("a.example", "A.EXAMPLE", True),
        ("a.example", "a.example.", True),
        ("a.example", "b.a.example", True),
        (".a.example", "b.a.example", True),
        ("*.a.example", "b.a.example", True),
        ("a.example", "ba.example", False),
        ("x.example, a.example", "a.example", True),
        ("a.example:8000", "a.example", True),
        ("a.example:8001", "a.example", False),
        ("8.0.0.0/8", "8.8.8.8", True),
        ("8.8.8.8", "8.8.8.8", True),
        ("9.0.0.0/8", "8.8.8.8", False),
        ("[2600::1]:8000", "2600::1", True),
        ("2600::/16", "2600::1", True),
        ("8.0.0.0/8", "a.example", False),
        (",, ", "a.example", False),
    ],
)
def test_no_proxy_names_what_needs_none(exceptions: str, host: str, excepted: bool) -> None:
    chosen = Proxies({"HTTP_PROXY": PROXY, "NO_PROXY": exceptions}).proxy_for("http", host, 8000)

    assert (chosen is None) == excepted


@pytest.mark.parametrize(
    "url", ["socks5://user:secret@p:1", "https://user:secret@p:1", "http://", "http://[x"]
)
def test_a_proxy_that_is_none_is_said_without_its_password(url: str) -> None:
    with pytest.raises(WrongSetting, match=r"proxy for http://a\.example is not an http") as caught:
        Proxies({"http_proxy": url}).proxy_for("http", "a.example", 80)

    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def tinyproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A proxy that nobody here wrote."""
    path = program("tinyproxy")
    folder: Path = tmp_path_factory.mktemp("tinyproxy")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "conf").write_text(
        f'Port {port}\nListen 127.0.0.1\nTimeout 30\nAllow 127.0.0.1\nLogFile "{folder}/log"\n'
        'LogLevel Connect\nBasicAuth user secret\nViaProxyName "tiny"\n'
    )
    process = subprocess.Popen([path, "-d", "-c", folder / "conf"], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.02)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


def through(way: Any, proxy: str, *, tls: bool, script: Handler, times: int = 1) -> list[HttpReply]:
    variables = {"HTTP_PROXY": f"http://{proxy}", "HTTPS_PROXY": f"http://{proxy}"}

    async def scenario() -> list[HttpReply]:
        async with (
            misbehaving(script, server_tls("127.1") if tls else None) as url,
            opened(variables=variables) as http,
        ):
            # The proxy hangs up after an answer without having said so; who sends again meanwhile
            # meets a connection that is going, and only what may be repeated goes out anew.
            asked = request(
                url.replace("127.0.0.1", "127.1") + "/x?y=z", timeout_s=10, repeatable=True
            )
            return [await http.send(asked) for _ in range(times)]

    return way.run(scenario())


@both_loops
@pytest.mark.parametrize("tls", [False, True])
def test_requests_go_through_a_real_proxy(way: Any, tinyproxy: str, tls: bool) -> None:
    script = Script([plain(b"1"), plain(b"2")])

    replies = through(way, f"user:secret@{tinyproxy}", tls=tls, script=script, times=2)

    assert [reply.body for reply in replies] == [b"1", b"2"]
    assert all(head.startswith(b"POST /x?y=z HTTP/1.") for head in script.heads)
    assert not any(b"proxy-authorization" in head.lower() for head in script.heads)
    # Bytes in a tunnel are none of the proxy's business; of others it says that it passed them on.
    assert [b"via:" in head.lower() for head in script.heads] == [not tls] * 2
    assert script.connections == 1 or not tls


@both_loops
def test_a_real_proxy_that_wants_credentials_is_named(way: Any, tinyproxy: str) -> None:
    with pytest.raises(ConnectionFailed, match=r"proxy 127.*407") as caught:
        through(way, tinyproxy, tls=True, script=Script([]))

    assert not caught.value.was_sent
    assert "HTTPS_PROXY" in caught.value.hint


@both_loops
def test_a_proxy_is_told_the_whole_url_and_its_credentials(way: Any) -> None:
    fake = Script([plain(b"from the proxy")])

    async def scenario() -> HttpReply:
        async with misbehaving(fake) as url:
            proxy = url.replace("http://", "http://us%65r:p%40ss@")
            async with opened(variables={"http_proxy": proxy}) as http:
                asked = HttpRequest("GET", "http://a.example:81/b?c=d", cookies={"e": "f"})
                return await http.send(asked)

    assert way.run(scenario()).body == b"from the proxy"
    lines = fake.heads[0].split(b"\r\n")
    assert lines[0] == b"GET http://a.example:81/b?c=d HTTP/1.1"
    assert b"host: a.example:81" in lines
    assert b"proxy-authorization: Basic " + base64.b64encode(b"user:p@ss") in lines


@both_loops
def test_what_is_direct_or_excepted_never_meets_the_proxy(way: Any) -> None:
    fake, server = Script([]), Script([plain(), plain()])

    async def scenario() -> None:
        async with misbehaving(fake) as proxy, misbehaving(server) as url:
            variables = {"http_proxy": proxy, "no_proxy": ""}
            async with opened(variables=variables) as http:
                await http.send(request(url))
                await http.send(request(url.replace("127.0.0.1", "127.1"), direct=True))

    way.run(scenario())
    assert fake.connections == 0


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


def tunnelled(way: Any, fake: Handler, **fields: Any) -> HttpReply:
    """HTTPS through a proxy that does what `fake` says."""

    async def scenario() -> HttpReply:
        async with misbehaving(fake) as proxy, opened(variables={"https_proxy": proxy}) as http:
            asked = request("https://a.example/", **{"timeout_s": 5.0, **fields})
            return await http.send(asked)

    return way.run(scenario())


@both_loops
@pytest.mark.parametrize(
    ("fake", "problem"),
    [
        (hangs_up, "0 bytes read"),
        (answering(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"), "502 Bad Gateway"),
        (answering(b"SSH-2.0-OpenSSH\r\n\r\n"), "SSH-2.0"),
        (answering(b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000), "Separator is not found"),
        (answering(b"HTTP/1.1 200 OK\r\n\r\nno TLS follows"), "SSL|closed it|reset"),
    ],
)
def test_a_proxy_that_makes_no_tunnel_is_a_failed_connection(
    way: Any, fake: Handler, problem: str
) -> None:
    with pytest.raises(ConnectionFailed, match=rf"through the proxy 127.*({problem})") as caught:
        tunnelled(way, fake)
    assert not caught.value.was_sent


@both_loops
def test_a_proxy_that_says_nothing_ends_at_the_deadline(way: Any) -> None:
    with pytest.raises(DeadlineExceeded, match="no connection by then"):
        tunnelled(way, says_nothing, timeout_s=0.2)


@both_loops
def test_a_tunnel_asked_for_and_given_up_is_closed(way: Any) -> None:
    closed = asyncio.Event()

    async def noticing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        assert await reader.read() == b""
        closed.set()

    async def scenario() -> None:
        async with misbehaving(noticing) as proxy, opened(variables={"https_proxy": proxy}) as http:
            asking = asyncio.create_task(http.send(request("https://a.example/")))
            await asyncio.sleep(0.1)
            asking.cancel()
            await closed.wait()

    way.run(scenario())


def talks_at_once(end: bytes) -> Handler:
    """A tunnel to a server whose last words of the handshake come together with more.

    In TLS 1.2 the server ends the handshake. `end`: what it says then; nothing to close.
    """

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = server_tls("a.example", protocol=ssl.TLSVersion.TLSv1_2)
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
            else:
                break
        if end:
            tls.write(end)
        else:
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
        writer.write(outgoing.read())
        await writer.drain()

    return handle


@both_loops
@pytest.mark.parametrize("end", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_a_server_that_leaves_as_its_tunnel_opens_is_a_failed_connection(
    way: Any, end: bytes
) -> None:
    problems: list[Any] = []

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        await talks_at_once(end)(reader, writer)

    with pytest.raises(ConnectionFailed):
        tunnelled(way, noted)

    assert problems == []
