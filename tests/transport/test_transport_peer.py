"""One rollout's conversation with one server: its session, its tools, and its failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import orjson
import pytest
from msgspec.structs import replace
from pydantic import BaseModel
from transport_worlds import (
    ANSWER,
    ASKED,
    ENVIRONMENT,
    HTTP,
    IN_PROCESS,
    MODEL,
    PLACEMENTS,
    TASK,
    TURN,
    UPSTREAM,
    Counter,
    Judging,
    Plain,
    Relay,
    answer,
    answering,
    misbehaving,
    refusing_url,
    running,
)

from palestra.errors import (
    CallError,
    DeadlineExceeded,
    EnvironmentFault,
    InfraError,
    JudgeFailure,
    RowError,
    RowIdentity,
)
from palestra.schema import (
    Response,
    SeedSessionRequest,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    WireModel,
)
from palestra.server import ResourcesServer, Server
from palestra.transport import CallContext, Peer, ServerClient, calling, current_call

BUSY = answer(503, b"no capacity left")
FINE = answer(200, orjson.dumps(ANSWER), "content-type: application/json")


def with_peer(
    placement: str, cls: type[Server], ask: Callable[[Peer, ServerClient], Awaitable[Any]]
) -> Any:
    """What `ask` gives when it talks to one server."""

    async def asked() -> Any:
        async with running(placement, {ENVIRONMENT: cls}) as client:
            with calling(ASKED):
                return await ask(client.peer(ENVIRONMENT), client)

    return asyncio.run(asked())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_one_session_from_seed_through_tools_to_verify(placement: str) -> None:
    async def rollout(peer: Peer, client: ServerClient) -> Any:
        del client
        await peer.notify("/seed_session", {**TASK, "start": 10})
        said = [await peer.call_tool("add", {"amount": n}) for n in (1, 2)]
        return said, await peer.call("/verify", TURN, VerifyResponse)

    said, verified = with_peer(placement, Counter, rollout)

    assert said == ["11", "13"]
    assert verified.reward == 13.0


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_two_conversations_with_one_server_are_two_sessions(placement: str) -> None:
    async def rollouts(peer: Peer, client: ServerClient) -> Any:
        other = client.peer(ENVIRONMENT)
        await peer.notify("/seed_session", {**TASK, "start": 1})
        await other.notify("/seed_session", {**TASK, "start": 100})
        await peer.call_tool("add", {"amount": 1})
        first = await peer.call("/verify", TURN, VerifyResponse)
        second = await other.call("/verify", TURN, VerifyResponse)
        return first.reward, second.reward, first.model_extra != second.model_extra

    assert with_peer(placement, Counter, rollouts) == (2.0, 100.0, True)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_cookies_hand_a_session_to_another_peer(placement: str) -> None:
    async def rollout(peer: Peer, client: ServerClient) -> Any:
        del peer
        seeded = await client.post(ENVIRONMENT, "/seed_session", json={"start": 5})
        heir = client.peer(ENVIRONMENT, cookies=seeded.cookies)
        said = await heir.call_tool("add", {"amount": 1})
        return said, (await heir.call("/verify", TURN, VerifyResponse)).reward

    assert with_peer(placement, Counter, rollout) == ("6", 6.0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_verify_ends_the_session(placement: str) -> None:
    async def twice(peer: Peer, client: ServerClient) -> Any:
        del client
        await peer.notify("/seed_session", {"start": 3})
        return [(await peer.call("/verify", TURN, VerifyResponse)).reward for _ in range(2)]

    assert with_peer(placement, Counter, twice) == [3.0, -1.0]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_what_a_plain_route_keeps_in_the_session_stays_for_the_conversation(
    placement: str,
) -> None:
    async def remembering(peer: Peer, client: ServerClient) -> Any:
        del client
        return [await peer.call_tool("remember", {}) for _ in range(2)]

    assert with_peer(placement, Plain, remembering) == ['{"calls":1}', '{"calls":2}']


class Silent(ResourcesServer):
    """Its seed answers nothing, and counts."""

    seeds: int = 0

    async def seed_session(self, body: WireModel) -> None:
        self.seeds += 1

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, float(self.seeds))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_method_that_answers_nothing_runs_once(placement: str) -> None:
    async def seeded(peer: Peer, client: ServerClient) -> Any:
        del client
        await peer.notify("/seed_session", TASK)
        return (await peer.call("/verify", TURN, VerifyResponse)).reward

    assert with_peer(placement, Silent, seeded) == 1.0


class Report(BaseModel):
    """A verify response that shares nothing with ours but the field that counts."""

    responses_create_params: Any
    response: Any
    reward: float
    accuracy: bool = False


class Reporting(ResourcesServer):
    """Answers with a model of its own."""

    async def verify(self, body: VerifyRequest) -> Report:
        return Report(**{**TASK, "response": ANSWER}, reward=1.0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_author_s_own_response_model_arrives_with_its_defaults(placement: str) -> None:
    async def verified(peer: Peer, client: ServerClient) -> Any:
        del client
        return await peer.call("/verify", TURN, VerifyResponse)

    assert with_peer(placement, Reporting, verified).model_extra == {"accuracy": False}


# Tools


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    "name", ["", "verify", "verify/", "mcp", "v1/responses", "ng-rollout/0-0/verify"]
)
def test_a_model_cannot_reach_an_endpoint_by_calling_a_tool_of_that_name(
    placement: str, name: str
) -> None:
    async def called(peer: Peer, client: ServerClient) -> Any:
        del client
        return await peer.call_tool(name, TURN)

    said = with_peer(placement, Counter, called)

    assert orjson.loads(said) == {"error": f"there is no tool named {name}"}


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("broken", {}, "ZeroDivisionError: by zero"),
        ("add", {}, "/amount: Field required"),
        ("add", {"amount": "many"}, "/amount"),
        ("add", {"amount": 1, "colour": "red"}, "/colour"),
        ("fly", {}, "there is no tool named 'fly'; tools: add, ask, broken"),
        ("ad", {}, "did you mean 'add'?"),
        ("/verify", {}, "there is no tool named '/verify'"),
        ("añadir ∑/..", {}, "there is no tool named 'añadir ∑/..'"),
    ],
)
def test_the_error_of_a_tool_is_text_for_the_model_in_every_placement(
    name: str, arguments: dict[str, Any], says: str
) -> None:
    async def called(peer: Peer, client: ServerClient) -> Any:
        del client
        await peer.notify("/seed_session", TASK)
        return await peer.call_tool(name, arguments)

    in_process, over_http = (with_peer(placement, Counter, called) for placement in PLACEMENTS)

    assert in_process == over_http
    assert says in in_process
    assert "Traceback" not in in_process


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("occupied", '{"detail":{"cell":3}}'),
        (
            "place",
            (
                '{"error":"environment/place rejects the body: /cell: Input should be a valid '
                'integer, unable to parse string as an integer, got \\"x\\""}'
            ),
        ),
        ("fail", '{"error":"KeyError: \'no such thing\'"}'),
    ],
)
def test_what_a_tool_s_own_route_refuses_is_text_for_the_model(
    placement: str, name: str, says: str
) -> None:
    async def called(peer: Peer, client: ServerClient) -> Any:
        del client
        return await peer.call_tool(name, {"cell": "x"})

    assert with_peer(placement, Plain, called) == says


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_exception_of_a_plain_route_is_text_for_the_model_too(placement: str) -> None:
    async def called(peer: Peer, client: ServerClient) -> Any:
        del client
        return await peer.call_tool("fail", {})

    said = orjson.loads(with_peer(placement, Plain, called))

    assert said == {"error": "KeyError: 'no such thing'"}


def nested(
    placement: str,
    environment: type[Server],
    upstream: str,
    ask: Callable[[Peer], Awaitable[Any]],
) -> Any:
    """`ask` an environment that asks a model server that asks `upstream`."""

    async def asked() -> Any:
        servers = {ENVIRONMENT: environment, MODEL: Relay}
        async with running(placement, servers, upstream=upstream) as client:
            with calling(ASKED):
                return await ask(client.peer(ENVIRONMENT))

    return asyncio.run(asked())


def nested_failure(
    placement: str, environment: type[Server], raw: bytes, ask: Callable[[Peer], Awaitable[Any]]
) -> CallError:
    async def asked() -> Any:
        async with misbehaving(answering(raw)) as url:
            return await asyncio.to_thread(nested, placement, environment, url, ask)

    with pytest.raises(CallError) as caught:
        asyncio.run(asked())
    return caught.value


async def ask_tool(peer: Peer) -> Any:
    return await peer.call_tool("ask", {})


async def verify(peer: Peer) -> Any:
    return await peer.call("/verify", TURN, VerifyResponse)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_failed_call_that_a_tool_made_is_raised_and_never_shown_to_the_model(
    placement: str,
) -> None:
    error = nested_failure(placement, Counter, BUSY, ask_tool)

    assert isinstance(error, JudgeFailure)
    assert [hop.server for hop in error.evidence.hops] == [ENVIRONMENT, MODEL, UPSTREAM]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_answer_that_is_none_is_a_failed_call_too(placement: str) -> None:
    error = nested_failure(placement, Counter, answer(200, b'{"id": 3}'), ask_tool)

    assert isinstance(error, JudgeFailure)
    assert "is not a valid Response" in error.message
    assert error.evidence.hops[-1].body == '{"id": 3}'
    assert error.evidence.row is not None


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_refused_connection_below_a_tool_is_infra(placement: str) -> None:
    with pytest.raises(InfraError) as caught:
        nested(placement, Counter, refusing_url(), ask_tool)

    assert [hop.server for hop in caught.value.evidence.hops] == [ENVIRONMENT, MODEL, UPSTREAM]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_hops_accumulate_in_order_and_the_innermost_has_the_body(placement: str) -> None:
    error = nested_failure(placement, Judging, BUSY, verify)
    hops = error.evidence.hops

    assert [hop.server for hop in hops] == [ENVIRONMENT, MODEL, UPSTREAM]
    assert [hop.status for hop in hops] == [500, 500, 503]
    assert [hop.body for hop in hops] == ["", "", "no capacity left"]
    assert [hop.url.startswith("http") for hop in hops] == [placement == HTTP] * 2 + [True]
    assert error.message == "upstream answered 503: no capacity left"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_innermost_failure_keeps_the_row(placement: str) -> None:
    row = nested_failure(placement, Judging, BUSY, verify).evidence.row

    assert row is not None
    assert (row.task, row.rollout, row.attempt, row.agent) == (7, 2, 3, "agent")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_row_s_identity_reaches_the_inner_server(placement: str) -> None:
    async def asked() -> str:
        async with (
            misbehaving(answering(FINE)) as url,
            running(placement, {MODEL: Relay}, upstream=url) as client,
        ):
            with calling(ASKED):
                reply = await client.peer(MODEL).call("/v1/responses", {"input": ""}, Response)
        return str(reply.user)

    assert asyncio.run(asked()) == repr(ASKED.row)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_body_that_does_not_fit_is_a_row_error_with_every_field(placement: str) -> None:
    async def verified(peer: Peer, client: ServerClient) -> Any:
        del client
        return await peer.call("/verify", {"response": {"id": 3}}, VerifyResponse)

    with pytest.raises(RowError) as caught:
        with_peer(placement, Counter, verified)
    assert {problem.pointer for problem in caught.value.evidence.problems} == {
        "/responses_create_params",
        "/response/id",
        "/response/created_at",
        "/response/model",
        "/response/output",
    }


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (answer(408, b"request timeout"), InfraError),
        (answer(429, b"slow down"), InfraError),
        (answer(502, b"bad gateway"), InfraError),
        (answer(422, b'{"detail":"?"}'), RowError),
        (answer(500, b"<html>oops</html>"), EnvironmentFault),
    ],
)
def test_a_foreign_failure_of_an_environment_is_classed_by_its_status(
    raw: bytes, kind: type[CallError]
) -> None:
    async def asked() -> Any:
        async with misbehaving(answering(raw)) as url, running(IN_PROCESS, {}, upstream=url) as c:
            target = c.targets[UPSTREAM]
            c.targets["foreign"] = type(target)("foreign", "resources_servers", target.urls)
            await c.peer("foreign").call("/seed_session", TASK, SeedSessionResponse)

    with pytest.raises(kind):
        asyncio.run(asked())


class Endless(Plain):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        await asyncio.Event().wait()
        raise AssertionError(body)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_call_that_outlives_its_limit_names_the_server_and_the_row(placement: str) -> None:
    async def verify(peer: Peer, client: ServerClient) -> Any:
        del client
        with calling(replace(ASKED, call_limit_s=0.05)):
            await peer.call("/verify", TURN, VerifyResponse)

    with pytest.raises(
        DeadlineExceeded, match=r"environment/verify took longer than 0.05 s"
    ) as raised:
        with_peer(placement, Endless, verify)

    assert [hop.server for hop in raised.value.evidence.hops] == [ENVIRONMENT]
    assert raised.value.evidence.row == ASKED.row


class Recording(Plain):
    """Keeps the contexts in which it was called."""

    contexts: ClassVar[list[CallContext]] = []

    async def seed_session(self, body: SeedSessionRequest) -> SeedSessionResponse:
        del body
        self.contexts.append(current_call())
        return SeedSessionResponse()


def test_an_environments_context_is_made_once_for_each_attempt() -> None:
    Recording.contexts.clear()
    again = replace(ASKED, row=RowIdentity(0, 0, attempt=2))

    async def seed(peer: Peer, client: ServerClient) -> None:
        del client
        for context in (ASKED, ASKED, again):
            with calling(context):
                await peer.notify("/seed_session", TASK)
        assert current_call() is ASKED

    with_peer(IN_PROCESS, Recording, seed)

    first, second, third = Recording.contexts
    assert first is second
    assert [first, third] == [replace(c, in_environment=True) for c in (ASKED, again)]
