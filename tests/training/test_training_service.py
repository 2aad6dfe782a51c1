"""The rollout service: streams that are taken up again, leases, refusals, and its end."""

import asyncio
import contextlib
import importlib.util
import math
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from contract_world import client_of, service_over
from starlette.responses import Response
from training_world import ToldAgent, request, requests

from palestra.errors import (
    CallError,
    ConfigError,
    InfraError,
    InputDataError,
    PalestraError,
    RunFailed,
)
from palestra.training import (
    IncompleteRollouts,
    Key,
    RemoteRolloutClient,
    Submission,
    outcome_from_json,
)
from palestra.training.service import RolloutService, openapi_document, service_token
from palestra.training.service.calls import BatchGone, ServiceCalls
from palestra.training.service.operations import RolloutOperations
from palestra.training.service.wire import BatchRequest, CancelRequest
from palestra.transport import ASGIApp, HttpClient, HttpRequest

pytestmark = pytest.mark.anyio
REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.asynccontextmanager
async def operations(
    agent: ToldAgent, *, token: str = "", **options: Any
) -> AsyncIterator[RolloutOperations]:
    """The operations of a service over an agent."""
    http = HttpClient()
    async with service_over(client_of(agent), token=token, **options) as url:
        try:
            yield ServiceCalls(http, url, token, patience_s=5).operations
        finally:
            await http.aclose()


def lines_of(text: bytes) -> tuple[list[Any], str]:
    """The outcomes of a stream, and the kind of its last line."""
    *outcomes, end = text.splitlines()
    return [outcome_from_json(line).key for line in outcomes], msgspec.json.decode(end)["outcome"]


async def test_lines_come_again_until_they_are_acknowledged() -> None:
    async with operations(ToldAgent(lambda *_: 1.0)) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(5)))
        first, kind = lines_of(await service.take_outcomes("b", limit=3))
        again, _ = lines_of(await service.take_outcomes("b", limit=3))
        others, end = lines_of(await service.take_outcomes("b", after=3))

        with pytest.raises(PalestraError, match="were acknowledged"):
            await service.take_outcomes("b", after=0)

    assert first == again
    assert (kind, end) == ("page_end", "stream_end")
    assert sorted(first + others) == [Key(task, 0) for task in range(5)]


async def test_a_stream_that_was_cut_is_taken_up_again() -> None:
    gate = asyncio.Event()

    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            await gate.wait()
        return 1.0

    agent = ToldAgent(script)
    async with service_over(client_of(agent)) as url:
        port = int(url.rpartition(":")[2])
        service = ServiceCalls(HttpClient(), url, "", patience_s=5).operations
        await service.submit_batch("b", BatchRequest(requests=requests(2)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/batches/b/outcomes HTTP/1.1\r\nhost: localhost\r\n\r\n")
        received = await reader.readuntil(b"}\n")
        writer.transport.abort()
        gate.set()
        missing, end = lines_of(await service.take_outcomes("b", after=1))

    assert b'"task_id":0' in received
    assert (missing, end) == ([Key(1, 0)], "stream_end")


async def test_the_same_batch_sent_twice_runs_once() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    async with operations(agent) as service:
        for _ in range(2):
            await service.submit_batch("b", BatchRequest(requests=requests(3)))
        await service.take_outcomes("b", limit=3)
        state = await service.close_batch("b")

    assert len(agent.begun) == state.summary.completed == 3


async def test_an_id_stands_for_one_submission() -> None:
    """Else a trainer that starts again would train on the rollouts of another step."""
    agent = ToldAgent(lambda *_: 1.0)
    async with operations(agent) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(2)))

        with pytest.raises(RunFailed, match="batch b was submitted with another body"):
            await service.submit_batch("b", BatchRequest(requests=requests(3)))


async def test_what_was_not_taken_is_not_pulled_from_the_batch() -> None:
    """Else outcomes would pile up in the service, and grow stale unseen."""
    agent = ToldAgent(lambda *_: 1.0)
    async with service_over(client_of(agent, in_flight=1, max_waiting=2)) as url:
        service = ServiceCalls(HttpClient(), url, "", patience_s=5).operations
        await service.submit_batch("b", BatchRequest(requests=requests(50)))
        await service.take_outcomes("b", limit=2)
        begun = len(agent.begun)

    assert begun <= 6


async def test_a_batch_is_taken_in_one_way() -> None:
    async with operations(ToldAgent(lambda *_: 1.0)) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(2)))
        await service.take_outcomes("b", limit=1)

        with pytest.raises(PalestraError, match="cannot be taken as groups of 1"):
            await service.take_groups("b", size=1)


async def test_a_wrong_size_of_groups_does_not_bind_the_batch() -> None:
    async with operations(ToldAgent(lambda *_: 1.0)) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(1, 2)))
        with pytest.raises(InputDataError, match="do not have 3 members"):
            await service.take_groups("b", size=3)

        text = await service.take_groups("b", size=2)

    assert msgspec.json.decode(text.splitlines()[0])["outcome"] == "group"


async def test_a_batch_whose_client_is_silent_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def waits(key: Key, attempt: int) -> float:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return 1.0

    agent = ToldAgent(waits)
    async with operations(agent, lease_s=0.1) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(2)))
        await agent.until_begun(2)
        async with asyncio.timeout(10):
            await cancelled.wait()

        with pytest.raises(BatchGone, match="silent for 0"):
            await service.batch_state("b")


class Proxy:
    """Answers as it is set to, where it does not pass a request on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.answer: tuple[int, bytes] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.answer is None:
            await self._app(scope, receive, send)
        else:
            status, body = self.answer
            await Response(body, status, media_type="text/html")(scope, receive, send)


@contextlib.asynccontextmanager
async def proxied() -> AsyncIterator[tuple[RemoteRolloutClient, Proxy]]:
    proxies: list[Proxy] = []

    def behind(app: ASGIApp) -> ASGIApp:
        proxies.append(Proxy(app))
        return proxies[0]

    agent = ToldAgent(lambda *_: 1.0)
    async with (
        service_over(client_of(agent), behind=behind) as url,
        RemoteRolloutClient(url, patience_s=0.1) as client,
    ):
        yield client, proxies[0]


async def test_an_order_that_failed_is_reported_once() -> None:
    async with proxied() as (client, proxy):
        proxy.answer = (503, b"")
        client.pause()
        with pytest.raises(CallError):
            await client.set_weight_version(1)
        proxy.answer = None
        await client.set_weight_version(1)
        outcomes = await client.submit(requests(2)).gather()

    assert len(outcomes) == 2


async def test_an_answer_of_something_else_is_a_fault_of_the_address() -> None:
    async with proxied() as (client, proxy):
        proxy.answer = (200, b"<html>it works")
        health = await client.health()
        with pytest.raises(InfraError) as raised:
            await client.set_weight_version(1)
        proxy.answer = None

    assert not health.ok
    assert "address" in raised.value.hint


@pytest.mark.slow
async def test_a_client_that_trains_for_long_keeps_its_batch() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    async with (
        service_over(client_of(agent), lease_s=0.4) as url,
        RemoteRolloutClient(url) as client,
        client.submit(requests(4)) as batch,
    ):
        await batch.next()
        await asyncio.sleep(1.5)
        others = [outcome async for outcome in batch]

    assert len(others) == 3


async def test_the_batches_of_a_trainer_that_was_killed_can_be_ended() -> None:
    """Else one that starts again waits behind their rollouts until their lease is over."""

    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 9:
            await asyncio.Event().wait()
        return 1.0

    http = HttpClient()
    async with service_over(client_of(ToldAgent(script), in_flight=1)) as url:
        service = ServiceCalls(http, url, "", patience_s=5).operations
        await service.submit_batch("old", BatchRequest(requests=[request(9)]))
        for batch in (await service.list_batches()).batches:
            await service.close_batch(batch.id)
        await service.submit_batch("new", BatchRequest(requests=[request(1)]))
        outcomes, _ = lines_of(await service.take_outcomes("new"))
        names = [batch.id for batch in (await service.list_batches()).batches]

    assert outcomes == [Key(1, 0)]
    assert names == ["new"]


# Refusals


async def test_a_wrong_token_is_refused_as_a_setting() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    async with service_over(client_of(agent), token="right") as url:
        with pytest.raises(ConfigError, match="token"):
            async with RemoteRolloutClient(url, token="wrong"):
                pass
        async with RemoteRolloutClient(url, token="right") as client:
            assert (await client.health()).ok


def test_beyond_this_machine_a_token_is_required() -> None:
    with pytest.raises(ConfigError) as raised:
        service_token("0.0.0.0", {})

    assert raised.value.exit_code == 2
    assert "PALESTRA_ROLLOUTS_TOKEN" in raised.value.hint
    named = {"PALESTRA_ROLLOUTS_TOKEN": "a token"}
    assert service_token("0.0.0.0", named) == "a token"
    assert service_token("127.0.0.1", {}) == ""


async def test_without_a_token_another_name_of_this_machine_is_refused() -> None:
    """A page in a browser may have a name that resolves to this machine."""
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        status = (await reader.readline()).split()[1]
        writer.close()

    assert status == b"421"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/pause", {"origin": "https://evil.example"}, 421),
        ("PUT", "/v1/weights", {"content-type": "text/plain"}, 415),
        ("GET", "/v1/nothing", {}, 404),
        ("GET", "/v1/weights", {}, 405),
        ("GET", "/v1/batches/b", {}, 404),
    ],
)
async def test_a_request_that_is_refused_says_why(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        reply = await HttpClient().send(HttpRequest(method, url + path, headers))

    assert reply.status == status
    assert msgspec.json.decode(reply.body)["error"]["hint"]


async def test_an_unknown_parameter_is_refused() -> None:
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        reply = await HttpClient().send(HttpRequest("GET", f"{url}/v1/batches/b/outcomes?afer=3"))

    assert (reply.status, b"afer" in reply.body) == (422, True)


async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with operations(ToldAgent(lambda *_: 1.0), most_body_bytes=1000) as service:
        with pytest.raises(InputDataError, match="1000 bytes"):
            await service.submit_batch("b", BatchRequest(requests=requests(100)))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"",
        b'{"requests": [{"row": 1, "task_id": 0}]}',
        b"{",
        b'{"requests": []}',
        b'{"requests": [{"row": {}, "task_id": 0, "sed": 1}]}',
    ],
)
async def test_a_body_that_is_no_submission_is_refused(body: bytes) -> None:
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        reply = await HttpClient().send(
            HttpRequest(
                "PUT", f"{url}/v1/batches/b", {"content-type": "application/json"}, body=body
            )
        )

    assert reply.status == 422
    assert msgspec.json.decode(reply.body)["error"]["type"] == "InputDataError"


async def test_a_submission_of_rows_is_answered_with_the_field_to_write() -> None:
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        reply = await HttpClient().send(
            HttpRequest(
                "PUT",
                f"{url}/v1/batches/b",
                {"content-type": "application/json"},
                body=b'{"rows": []}',
            )
        )

    error = msgspec.json.decode(reply.body)["error"]
    assert error["message"].endswith("did you mean 'requests'?")
    assert "requests, deadline_s" in error["hint"]


async def test_keys_of_another_batch_are_not_cancelled() -> None:
    async with operations(ToldAgent(lambda *_: 1.0)) as service:
        await service.submit_batch("b", BatchRequest(requests=requests(1)))
        with pytest.raises(InputDataError, match="9:0"):
            await service.cancel_rollouts("b", CancelRequest([Key(9, 0)]))


# Its end


async def test_a_client_that_waits_is_told_that_the_service_stops() -> None:
    async def waits(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    agent = ToldAgent(waits)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(service_over(client_of(agent)))
        async with RemoteRolloutClient(url, patience_s=0.3) as client:
            waiting = asyncio.create_task(client.submit([request()]).next())
            await agent.until_begun(1)
            await asyncio.sleep(0.05)
            await stack.pop_all().aclose()

            with pytest.raises(IncompleteRollouts, match="rollout service was stopped") as raised:
                await waiting

    assert raised.value.missing == (Key(0, 0),)


async def first_group(batch: Submission) -> object:
    return await anext(batch.groups(3))


TAKEN_BY: dict[str, Callable[[Submission], Coroutine[Any, Any, object]]] = {
    "groups": first_group,
    "gather": lambda batch: batch.gather(),
}


async def until_taken(url: str) -> None:
    """Wait until a client of the service waits for a batch's outcomes."""
    http = HttpClient()
    service = ServiceCalls(http, url, "", patience_s=5).operations
    is_taken = False
    while not is_taken:
        is_taken = any(batch.silent_s == 0.0 for batch in (await service.list_batches()).batches)
    await http.aclose()


@pytest.mark.parametrize("way", TAKEN_BY)
async def test_when_the_service_stops_the_error_has_what_came_and_what_is_missing(way: str) -> None:
    ended = asyncio.Event()

    async def script(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            ended.set()
            await asyncio.Event().wait()
        return 1.0

    agent = ToldAgent(script)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(service_over(client_of(agent, in_flight=1)))
        async with RemoteRolloutClient(url, patience_s=0.3) as client:
            batch = client.submit([request(task, group_id=0) for task in range(3)])
            waiting = asyncio.create_task(TAKEN_BY[way](batch))
            async with asyncio.timeout(10):
                await asyncio.gather(ended.wait(), until_taken(url))
            await stack.pop_all().aclose()
            with pytest.raises(IncompleteRollouts, match="rollout service was stopped") as raised:
                await waiting

    error = raised.value
    assert (error.requested, error.received) == (3, 1)
    assert error.missing == (Key(1, 0), Key(2, 0))
    assert [(outcome.key, outcome.reward) for outcome in error.completed] == [(Key(0, 0), 1.0)]


async def test_a_service_that_is_gone_is_told_with_what_is_missing() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(service_over(client_of(agent)))
        client = RemoteRolloutClient(url, patience_s=0.3)
        await client.__aenter__()
        await stack.pop_all().aclose()
        batch = client.submit(requests(2))
        with pytest.raises(IncompleteRollouts, match="does not answer") as raised:
            await batch.gather()
        assert not (await client.health()).ok
        await client.__aexit__(None, None, None)

    assert raised.value.missing == (Key(0, 0), Key(1, 0))


# Its description


def script_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.source
def test_the_operations_are_those_of_the_document() -> None:
    script = script_of("write_rollout_operations")

    assert script.TARGET.read_text() == script.module(openapi_document())


def test_every_schema_that_the_document_refers_to_is_in_it() -> None:
    document = openapi_document()
    text = msgspec.json.encode(document).decode()

    referred = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert referred <= document["components"]["schemas"].keys()
    assert {"Completed", "Failed", "RolloutRequest", "Summary"} <= referred


async def test_the_service_answers_with_its_document() -> None:
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        reply = await HttpClient().send(HttpRequest("GET", f"{url}/openapi.json"))

    assert msgspec.json.decode(reply.body) == msgspec.json.decode(
        msgspec.json.encode(openapi_document())
    )
    assert math.floor(reply.status / 100) == 2


def test_every_operation_is_answered() -> None:
    app = RolloutService(client_of_nobody()).app()

    served = {(method, route.path) for route in app.routes for method in route.methods}  # type: ignore[attr-defined]
    document = openapi_document()
    described = {
        (verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs
    }
    assert described <= served


def client_of_nobody() -> Any:
    """No operation of it is called."""
    return None
