"""A request's head says what the request says, and nothing that somebody slipped into it."""

import asyncio
from typing import Any

import aiohttp
import httptools
import pytest
from http_peers import Script, plain
from hypothesis import given
from hypothesis import strategies as st
from transport_worlds import misbehaving

from palestra.transport import HttpRequest, RequestRefused, WrongUrl
from palestra.transport.h1.proxies import Proxies
from palestra.transport.h1.requests import RequestHeads

URL = "http://host:8000/v1/x"
TOKEN = st.from_regex(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", fullmatch=True)


class Seen:
    """What an independent parser reads from a head."""

    def __init__(self, head: bytes, body: bytes = b"") -> None:
        self.headers: list[tuple[str, str]] = []
        self.body = self.target = b""
        self.complete = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(head + body)
        self.method = parser.get_method().decode()

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode().lower(), value.decode("utf-8", "surrogateescape")))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def head(method: str = "POST", url: str = URL, **fields: Any) -> bytes:
    heads = RequestHeads(Proxies({}))
    request = HttpRequest(method, url, **fields)
    return heads.head(heads.route(method, url), request)


def seen(method: str = "POST", url: str = URL, **fields: Any) -> Seen:
    return Seen(head(method, url, **fields), fields.get("body") or b"")


def test_a_request_is_read_as_it_was_meant() -> None:
    found = seen(headers={"content-type": "application/json"}, body=b"{}", cookies={"a": "1"})

    assert (found.method, found.target, found.body) == ("POST", b"/v1/x", b"{}")
    assert found.complete
    assert found.headers == [
        ("host", "host:8000"),
        ("content-type", "application/json"),
        ("accept", "*/*"),
        ("user-agent", "palestra"),
        ("cookie", "a=1"),
        ("content-length", "2"),
    ]


@given(
    headers=st.dictionaries(TOKEN, st.text(), max_size=5),
    cookies=st.dictionaries(st.text(), st.text(), max_size=3),
    body=st.none() | st.binary(max_size=50),
    method=st.sampled_from(["GET", "POST", "DELETE"]),
)
def test_whatever_is_asked_is_refused_or_read_as_one_request_with_these_headers(
    headers: dict[str, str], cookies: dict[str, str], body: bytes | None, method: str
) -> None:
    try:
        raw = head(method, headers=headers, cookies=cookies, body=body)
    except RequestRefused:
        return
    lines = raw.decode("utf-8", "surrogateescape").split("\r\n")
    assert lines[-2:] == ["", ""]
    names = [line.partition(":")[0] for line in lines[1:-2]]
    ours = {"host", "accept", "user-agent", "content-type", "cookie", "content-length"}
    assert [name for name in names if name in headers] == list(headers)
    assert set(names) - set(headers) <= ours
    assert "\n" not in "".join(lines)


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", b"{}", "2"),
        ("POST", b"", "0"),
        ("POST", None, "0"),
        ("DELETE", None, "0"),
        ("GET", None, None),
        ("GET", b"", None),
        ("GET", b"{}", "2"),
        ("HEAD", None, None),
    ],
)
def test_the_length_of_a_body_is_announced_where_one_is_expected(
    method: str, body: bytes | None, length: str | None
) -> None:
    assert dict(seen(method, body=body).headers).get("content-length") == length


@pytest.mark.parametrize("name", ["Host", "Accept", "User-Agent", "Content-Type"])
def test_a_header_of_the_callers_replaces_ours(name: str) -> None:
    found = seen(headers={name: "mine"}, body=b"{}").headers

    assert [value for key, value in found if key == name.lower()] == ["mine"]


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_the_framing_is_not_the_callers(name: str) -> None:
    with pytest.raises(RequestRefused, match="is set by Palestra"):
        head(headers={name: "5"})


@pytest.mark.parametrize("name", ["", "x y", "x:", "é", "x\r\ny"])
def test_what_is_no_name_of_a_header_is_refused(name: str) -> None:
    with pytest.raises(RequestRefused, match="is not a valid header name"):
        head(headers={name: "1"})


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_value_is_refused_and_its_header_named(value: str) -> None:
    with pytest.raises(RequestRefused, match="the x-a header has a line break"):
        head(headers={"x-a": value})
    with pytest.raises(RequestRefused, match="the cookie header has a line break"):
        head(cookies={"a": value})


def test_a_secret_is_not_in_the_message_that_refuses_it() -> None:
    with pytest.raises(RequestRefused) as refused:
        head(headers={"authorization": "Bearer sk-secret\n"})

    assert "sk-secret" not in str(refused.value)


def test_bytes_that_were_no_text_go_out_as_they_came_in() -> None:
    assert b"cookie: a=\xe9\r\n" in head(cookies={"a": b"\xe9".decode("utf-8", "surrogateescape")})
    with pytest.raises(RequestRefused, match="the x header is not text"):
        head(headers={"x": "\ud800"})


@pytest.mark.parametrize("url", ["http://h/\r\nX: y", "http://h/a\0b", "http://h/\t", "http://h\n"])
def test_control_characters_in_a_url_are_refused(url: str) -> None:
    with pytest.raises(WrongUrl, match="control characters"):
        head(url=url)


@pytest.mark.parametrize("method", ["", "GE T", "GET /x HTTP/1.1\r\nX: y\r\n\r\nGET"])
def test_what_is_no_method_is_refused(method: str) -> None:
    with pytest.raises(RequestRefused, match="is not an HTTP method"):
        head(method)


def test_credentials_are_said_once() -> None:
    with pytest.raises(RequestRefused, match="the URL has credentials, and so has"):
        head(url="http://a:b@host/", headers={"Authorization": "Bearer x"})


URLS = [
    "http://{}",
    "http://{}?a=1",
    "http://{}/a b?q=x y&z=%2F%zz#fragment",
    "http://{}/ü/%E4/%7e?ü=é&a=b+c&d=%2B",
    "http://{}/a//b/../c/./d",
    "http://user:p%40ss@{}/x",
    "http://us%C3%A9r:p%C3%A4ss@{}/x",
    "http://user@{}/",
    "HTTP://{}/UP",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_means_what_it_means_to_aiohttp(url: str) -> None:
    script = Script([plain()])

    async def theirs() -> str:
        async with misbehaving(script) as base, aiohttp.ClientSession() as session:
            whole_url = url.format(base.removeprefix("http://"))
            async with session.get(whole_url):
                return whole_url

    ours = seen("GET", asyncio.run(theirs()))
    aiohttps = Seen(script.heads[0])

    assert ours.target == aiohttps.target
    for name in ("host", "authorization"):
        assert dict(ours.headers).get(name) == dict(aiohttps.headers).get(name)


@pytest.mark.parametrize(
    ("url", "address", "host"),
    [
        ("http://[::1]:99/x", ("::1", 99), "[::1]:99"),
        ("http://bücher.example/", ("xn--bcher-kva.example", 80), "xn--bcher-kva.example"),
        ("http://HOST:80/", ("host", 80), "host"),
    ],
)
def test_names_and_numbers_of_hosts(url: str, address: tuple[str, int], host: str) -> None:
    route = RequestHeads(Proxies({})).route("GET", url)

    assert route.address[:2] == address
    assert route.host_line == f"host: {host}\r\n".encode()


def test_what_is_remembered_is_bounded() -> None:
    heads = RequestHeads(Proxies({}))
    for number in range(3000):
        route = heads.route("GET", f"http://h/{number}")
        heads.head(route, HttpRequest("GET", "", {"x": str(number)}))

    assert heads.route.cache_info().currsize == 1024
    assert heads._fields.cache_info().currsize == 1024
