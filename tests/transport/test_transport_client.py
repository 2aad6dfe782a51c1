"""Generic requests: the same answers in this process and over HTTP, and failures explained."""

import asyncio
import logging
import time
from typing import Any

import pytest
from transport_worlds import (
    ASKED,
    ENVIRONMENT,
    HTTP,
    IN_PROCESS,
    PLACEMENTS,
    TURN,
    Counter,
    Plain,
    misbehaving,
    refusing_url,
    running,
)

import palestra.transport
from palestra.errors import CallError, ConfigError, DeadlineExceeded
from palestra.schema import VerifyResponse
from palestra.transport import (
    CallContext,
    ConnectionFailed,
    HttpClient,
    ServerClient,
    Target,
    calling,
)
from palestra.transport.answered import exchange_line


def test_everything_in_all_exists() -> None:
    assert all(hasattr(palestra.transport, name) for name in palestra.transport.__all__)


def answers(method: str, path: str, **kwargs: Any) -> list[Any]:
    """The same request in every placement: status, body and content type."""

    async def asked(placement: str) -> Any:
        async with running(placement, {"plain": Plain}) as client:
            reply = await client.request("plain", path, method=method, **kwargs)
            return reply.status, reply.headers["content-type"], await reply.read()

    return [asyncio.run(asked(placement)) for placement in PLACEMENTS]


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status"),
    [
        ("GET", "/", {}, 200),
        ("GET", "/echo/word", {"params": {"a": "1 2", "ü": "&="}}, 200),
        ("GET", "/echo/two%20words?a=b%26c", {}, 200),
        ("GET", "/echo/w?a=1", {"params": {"b": "2"}}, 200),
        ("GET", "/nowhere", {}, 404),
        ("PUT", "/verify", {}, 405),
        ("POST", "/verify", {"json": TURN}, 200),
        ("POST", "/verify", {"json": {"response": 3}}, 422),
        ("POST", "/verify", {}, 422),
        ("POST", "/fail", {"json": {}}, 500),
        ("POST", "/aggregate_metrics", {"json": {"verify_responses": []}}, 200),
    ],
)
def test_a_generic_request_has_the_same_answer_in_process_and_over_http(
    method: str, path: str, kwargs: dict[str, Any], status: int
) -> None:
    in_process, over_http = answers(method, path, **kwargs)

    assert in_process == over_http
    assert in_process[0] == status


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_reply_speaks_as_the_client_that_authors_know(placement: str) -> None:
    async def asked() -> None:
        async with running(placement, {"plain": Plain}) as client:
            reply = await client.get("plain", "/echo/word")
            assert reply.ok
            assert (await reply.json())["word"] == "word"
            assert await reply.content.read() == await reply.read()
            assert (await reply.text()).startswith('{"word"')
            assert (await client.post("plain", "/fail", json={})).ok is False

    asyncio.run(asked())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_cookies_given_back_continue_the_session(placement: str) -> None:
    async def asked() -> list[int]:
        async with running(placement, {"plain": Plain}) as client:
            first = await client.post("plain", "/remember")
            second = await client.post("plain", "/remember", cookies=first.cookies)
            fresh = await client.post("plain", "/remember")
            return [(await reply.json())["calls"] for reply in (first, second, fresh)]

    assert asyncio.run(asked()) == [1, 2, 1]


def test_an_unknown_server_lists_those_there_are() -> None:
    client = ServerClient({"a": Target("a", "resources_servers")}, HttpClient())

    with pytest.raises(ConfigError, match="no server instance is named 'b'") as caught:
        client.peer("b")
    assert caught.value.hint == "instances of this fleet: a"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_path_without_its_slash_is_an_error_of_the_calling_code(placement: str) -> None:
    async def asked() -> None:
        async with running(placement, {"plain": Plain}) as client:
            await client.post("plain", "seed_session", json={})

    with pytest.raises(ConfigError, match="write '/seed_session'"):
        asyncio.run(asked())


def verify_at(url: str, *, within_s: float | None = None, **options: Any) -> CallError:
    """How a call to the environment at `url` failed."""

    async def asked() -> None:
        deadline = None if within_s is None else time.monotonic() + within_s
        async with running(HTTP, {}, **options) as client:
            client.targets[ENVIRONMENT] = Target(ENVIRONMENT, "resources_servers", (url,))
            with calling(CallContext(row=ASKED.row, deadline=deadline)):
                await client.peer(ENVIRONMENT).call("/verify", TURN, VerifyResponse)

    with pytest.raises(CallError) as caught:
        asyncio.run(asked())
    return caught.value


def test_a_server_that_is_gone_is_named_with_the_row() -> None:
    url = refusing_url()
    error = verify_at(url)

    assert isinstance(error, ConnectionFailed)
    assert error.evidence.row == ASKED.row
    assert [(hop.server, hop.url) for hop in error.evidence.hops] == [
        (ENVIRONMENT, url + "/verify")
    ]


def test_a_server_that_never_answers_ends_with_the_deadline() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def asked() -> CallError:
        async with misbehaving(never) as url:
            return await asyncio.to_thread(verify_at, url, within_s=0.2)

    error = asyncio.run(asked())

    assert isinstance(error, DeadlineExceeded)
    assert error.evidence.row == ASKED.row
    assert error.evidence.hops[0].server == ENVIRONMENT


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_debug_logging_says_what_was_asked_and_for_which_row(
    placement: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def asked() -> None:
        async with running(placement, {"counter": Counter}, debug=True) as client:
            body = {"response": "not one"}
            with calling(ASKED), pytest.raises(CallError):
                await client.peer("counter").call("/verify", body, VerifyResponse)

    with caplog.at_level(logging.ERROR, logger="palestra.transport"):
        asyncio.run(asked())

    [line] = [r.getMessage() for r in caplog.records if r.name == "palestra.transport"]
    assert line.startswith("request failed: Request info: POST ")
    assert 'row={"task":7,"rollout":2,"attempt":3,' in line
    assert 'Request kwargs: {"response":"not one"} Response content: ' in line
    assert " status=422 " in line
    assert "/responses_create_params" in line


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_debug_logging_says_what_was_answered_too(
    placement: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def asked() -> None:
        async with running(placement, {"counter": Counter}, debug=True) as client:
            with calling(ASKED):
                await client.peer("counter").notify("/seed_session", {"start": 40})

    with caplog.at_level(logging.INFO, logger="palestra.transport"):
        asyncio.run(asked())

    [line] = [r.getMessage() for r in caplog.records if r.name == "palestra.transport"]
    assert line.startswith("request answered: POST ")
    assert 'row={"task":7,"rollout":2,"attempt":3,' in line
    assert " status=200 " in line
    assert 'kwargs={"start":40}' in line


def test_a_published_schema_is_not_printed() -> None:
    line = exchange_line("GET", "http://x/openapi.json", None, {}, b"", 200, '{"paths": {}}')

    assert line.startswith("request answered: GET http://x/openapi.json status=200 ")
    assert "paths" not in line


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_without_debugging_a_failed_request_is_not_logged(
    placement: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def asked() -> None:
        async with running(placement, {"counter": Counter}) as client:
            with pytest.raises(CallError):
                await client.peer("counter").call("/verify", {}, VerifyResponse)

    with caplog.at_level(logging.ERROR, logger="palestra.transport"):
        asyncio.run(asked())

    assert not caplog.records


def test_debug_logging_shows_no_token(caplog: pytest.LogCaptureFixture) -> None:
    async def asked() -> None:
        async with running(IN_PROCESS, {}) as plain:
            target = Target(ENVIRONMENT, "resources_servers", (refusing_url(),))
            client = ServerClient(
                {ENVIRONMENT: target},
                plain.http,
                policy=plain.policy,
                debug=True,
                token="tok-1234567890",
            )
            with pytest.raises(ConnectionFailed):
                await client.post(ENVIRONMENT, "/verify", json={"a": 1})

    with caplog.at_level(logging.DEBUG):
        asyncio.run(asked())

    assert "request failed" in caplog.text
    assert "tok-1234567890" not in caplog.text
