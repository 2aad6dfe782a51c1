"""What servers that are not ours send is understood: four of them, with TLS and without."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from foreign_servers import IDLE_S, KINDS, LARGEST_REQUEST, PARTS, running
from tls_authority import write_certificate

from palestra.errors import DeadlineExceeded
from palestra.transport import ConnectionFailed, HttpClient, HttpReply, HttpRequest

T = TypeVar("T")
LARGE = bytes(range(256)) * 12_000


class Foreign:
    """A running server, and how it is asked."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url

    def request(self, path: str, method: str = "POST", **fields: Any) -> HttpRequest:
        return HttpRequest(method, self.url + path, **{"timeout_s": 20.0, **fields})

    def run(self, scenario: Callable[[HttpClient], Awaitable[T]]) -> T:
        async def bounded() -> T:
            http = HttpClient()
            try:
                async with asyncio.timeout(40):
                    return await scenario(http)
            finally:
                await http.aclose()

        return uvloop.run(bounded())

    def ask(self, path: str, method: str = "POST", **fields: Any) -> HttpReply:
        return self.run(lambda http: http.send(self.request(path, method, **fields)))


@pytest.fixture(scope="module", params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Foreign]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    files = write_certificate(folder) if scheme == "https" else ()
    with running(request.param, folder, files) as port:
        yield Foreign(request.param, f"{scheme}://127.0.0.1:{port}")


@pytest.mark.slow
@pytest.mark.parametrize("body", [None, b"{}", LARGE])
def test_a_body_comes_back_as_it_was_sent(server: Foreign, body: bytes | None) -> None:
    assert server.ask("/echo", body=body).body == b"POST /echo " + (body or b"")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_each_method_is_understood(server: Foreign, method: str) -> None:
    assert server.ask("/x", method).body == f"{method} /x ".encode()


def test_an_answer_in_parts_is_whole(server: Foreign) -> None:
    assert server.ask("/parts").body == b"".join(PARTS)


def test_what_has_no_body_ends_and_its_connection_serves_on(server: Foreign) -> None:
    async def scenario(http: HttpClient) -> list[tuple[int, bytes]]:
        asked = [server.request("/none"), server.request("/x", "HEAD"), server.request("/x")]
        return [(reply.status, reply.body) for reply in [await http.send(one) for one in asked]]

    assert server.run(scenario) == [(204, b""), (200, b""), (200, b"POST /x ")]


def test_an_error_is_an_answer_too(server: Foreign) -> None:
    reply = server.ask("/broken")

    assert (reply.status, reply.body) == (500, b"it is broken")
    assert reply.headers["retry-after"] == "3"


def test_cookies_in_several_lines_all_arrive(server: Foreign) -> None:
    assert server.ask("/cookies").cookies == {"a": "1", "b": "x=="}


def test_a_row_of_requests_uses_one_connection(server: Foreign) -> None:
    async def scenario(http: HttpClient) -> int:
        for _ in range(20):
            await http.send(server.request("/echo", body=b"{}"))
        return len(http._opened)

    assert server.run(scenario) == 1


@pytest.mark.slow
def test_many_at_once_get_each_their_own_answer(server: Foreign) -> None:
    async def scenario(http: HttpClient) -> list[HttpReply]:
        asked = [server.request("/echo", body=b"%d" % number) for number in range(200)]
        return await asyncio.gather(*map(http.send, asked))

    replies = server.run(scenario)

    assert [reply.body for reply in replies] == [b"POST /echo %d" % n for n in range(200)]


def test_an_answer_that_is_cut_off_is_no_answer(server: Foreign) -> None:
    with pytest.raises(ConnectionFailed, match="the connection broke") as caught:
        server.ask("/cut")
    assert caught.value.was_sent


@pytest.mark.slow
def test_connections_that_the_server_closes_meanwhile_cost_no_request(server: Foreign) -> None:
    async def scenario(http: HttpClient) -> list[bytes]:
        bodies = []
        # At about the moment at which the server closes what is idle: one or the other is first.
        # A good while after it nobody may wonder whether a request was read.
        for waiting_s, repeatable in ((0, True), (IDLE_S - 0.01, True), (IDLE_S + 1.5, False)):
            await asyncio.sleep(waiting_s)
            asked = server.request("/echo", body=b"{}", repeatable=repeatable)
            replies = await asyncio.gather(*(http.send(asked) for _ in range(30)))
            bodies += [reply.body for reply in replies]
        return bodies

    assert server.run(scenario) == [b"POST /echo {}"] * 90


def test_a_deadline_ends_what_never_answers(server: Foreign) -> None:
    with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.3 s"):
        server.ask("/never", timeout_s=0.3)


def test_who_cancels_is_gone_at_once(server: Foreign) -> None:
    async def gone(http: HttpClient) -> int:
        return int((await http.send(server.request("/gone", "GET"))).body)

    async def scenario(http: HttpClient) -> None:
        before = await gone(http)
        asking = asyncio.create_task(http.send(server.request("/never")))
        await asyncio.sleep(0.2)
        asking.cancel()
        async with asyncio.timeout(5):
            while await gone(http) == before:  # noqa: ASYNC110 - the event is in another process
                await asyncio.sleep(0.01)

    server.run(scenario)


def test_a_refusal_before_the_body_was_read_is_heard(server: Foreign) -> None:
    if server.kind != "nginx":
        pytest.skip("this one reads whatever comes")

    reply = server.ask("/echo", body=bytes(5 * LARGEST_REQUEST))

    assert reply.status == 413
