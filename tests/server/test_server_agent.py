"""An agent's endpoints: the whole rollout, and the loop alone inside somebody's session."""

import asyncio
from typing import Any

import orjson
import pytest

from author_servers import PARAMS, TASK, error_of
from palestra.schema import (
    AggregateMetricsRequest,
    Response,
    ResponseCreateParams,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    encode_json,
)
from palestra.server import (
    Agent,
    AgentConfig,
    ModelServer,
    ModelServerConfig,
    ResourcesServer,
    ResourcesServerConfig,
    Session,
    tool,
)
from palestra.transport import HttpClient, Peer, ServerClient, Target, call_asgi


class Counting(ResourcesServer):
    async def seed_session(self, body: WireModel, session: Session) -> WireModel:
        session.state["calls"] = 0
        return WireModel()

    @tool
    async def count(self, session: Session) -> str:
        """Count this call."""
        session.state["calls"] += 1
        return str(session.state["calls"])

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, float(session.state["calls"]))


class Model(ModelServer):
    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        return Response(id="r", created_at=0, model="m", output=[])


class OneTool(Agent):
    """Calls the tool once and the model once."""

    def environment_name(self) -> str:
        return "env"

    def model_name(self) -> str:
        return "model"

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        said = await environment.call_tool("count", {})
        answer = await model.call("/v1/responses", params, Response)
        return answer.model_copy(update={"user": said})


def fleet(tree: dict[str, Any] | None = None, **settings: Any) -> ServerClient:
    """`tree`: the top-level keys. `settings`: those of the agent."""
    targets: dict[str, Target] = {}
    client = ServerClient(targets, HttpClient(), tree=tree or {})
    servers = {
        "env": Counting(config=ResourcesServerConfig(name="env"), server_client=client),
        "model": Model(config=ModelServerConfig(name="model"), server_client=client),
        "agent": OneTool(config=AgentConfig(name="agent", **settings), server_client=client),
    }
    targets |= {name: Target(name, "", local=server) for name, server in servers.items()}
    return client


def test_run_seeds_responds_and_verifies_in_one_session() -> None:
    result = asyncio.run(fleet().peer("agent").call("/run", TASK, VerifyResponse))

    assert (result.reward, result.response.user) == (1.0, "1")


@pytest.mark.parametrize(
    ("name", "status"), [("max_output_tokenz", 422), ("top_k", 200), ("my_own", 200)]
)
def test_a_misspelt_parameter_of_the_request_is_refused_before_the_model_is_called(
    name: str, status: int
) -> None:
    app = fleet().target("agent").local
    assert app is not None
    row = {"responses_create_params": {**PARAMS, name: 1}}
    reply = asyncio.run(call_asgi(app.asgi_app(), "POST", "/run", body=encode_json(row)))

    assert reply.status == status
    if status != 200:
        (problem,) = error_of(reply)["problems"]
        assert problem["pointer"] == f"/responses_create_params/{name}"
        assert "'max_output_tokens'" in problem["expected"]
        assert (error_of(reply)["hops"], bool(error_of(reply)["hint"])) == ([], True)


def test_responses_continues_the_session_that_the_caller_seeded_and_gives_its_cookies_back() -> (
    None
):
    async def calls() -> list[str]:
        client = fleet()
        seeded = await client.post("env", "/seed_session", json=TASK)
        first = await client.post("agent", "/v1/responses", json=PARAMS, cookies=seeded.cookies)
        again = await client.post(
            "agent", "/v1/responses", json=PARAMS, cookies={**seeded.cookies, **first.cookies}
        )
        return [(await reply.json())["user"] for reply in (first, again)]

    assert asyncio.run(calls()) == ["1", "2"]


def test_params_that_do_not_fit_are_a_422() -> None:
    app = fleet().target("agent").local
    assert app is not None
    raw = encode_json({"input": 3, "stream": True})
    reply = asyncio.run(call_asgi(app.asgi_app(), "POST", "/v1/responses", body=raw))
    pointers = {problem["pointer"] for problem in error_of(reply)["problems"]}

    assert reply.status == 422
    assert pointers == {"/input", "/stream"}


def test_aggregating_asks_the_environment() -> None:
    async def asked() -> bytes:
        rows = [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}]
        reply = await fleet().post("agent", "/aggregate_metrics", json={"verify_responses": rows})
        return await reply.read()

    assert orjson.loads(asyncio.run(asked()))["agent_metrics"]["mean/reward"] == 1.0


@pytest.mark.parametrize(
    ("tree", "settings", "reward"),
    [
        ({}, {}, 1.0),
        ({"skip_verification": True}, {}, 0.0),
        ({"skip_verification": True, "skip_verification_reward": 0.5}, {}, 0.5),
        ({"skip_verification": True}, {"skip_verification": False}, 1.0),
        ({}, {"skip_verification": True, "skip_verification_reward": 0.25}, 0.25),
    ],
)
def test_skip_verification_answers_the_reward_that_is_set(
    tree: dict[str, Any], settings: dict[str, Any], reward: float
) -> None:
    client = fleet(tree, **settings)

    result = asyncio.run(client.peer("agent").call("/run", TASK, VerifyResponse))

    assert (result.reward, result.response.user) == (reward, "1")


def test_skip_verification_leaves_nothing_to_aggregate() -> None:
    agent = fleet({"skip_verification": True}).target("agent").local
    assert isinstance(agent, OneTool)

    with pytest.warns(RuntimeWarning, match="skips verification"):
        metrics = asyncio.run(agent.aggregate_metrics(AggregateMetricsRequest(verify_responses=[])))

    assert (metrics.agent_metrics, metrics.key_metrics) == ({}, {})


class Buggy(OneTool):
    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        raise KeyError("its own")


def test_what_an_agent_raises_is_the_agents_with_its_own_line() -> None:
    client = fleet()
    agent = Buggy(config=AgentConfig(name="agent"), server_client=client)

    reply = asyncio.run(call_asgi(agent.asgi_app(), "POST", "/run", body=orjson.dumps(TASK)))

    error = error_of(reply)
    assert (error["type"], error["layer"]) == ("agent_error", "verifier/runtime")
    assert error["traceback"].endswith(" in respond")
    assert __file__ in error["traceback"]


@pytest.mark.parametrize("server", ["agent", "env"])
def test_aggregating_rows_without_their_keys_is_a_422_that_names_them(server: str) -> None:
    async def asked() -> tuple[int, bytes]:
        rows = [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}, {"reward": 1.0}]
        reply = await fleet().post(server, "/aggregate_metrics", json={"verify_responses": rows})
        return reply.status, await reply.read()

    status, body = asyncio.run(asked())
    error = orjson.loads(body)["error"]

    assert (status, error["type"]) == (422, "data_error")
    assert {problem["pointer"] for problem in error["problems"]} == {
        "/verify_responses/1/_ng_task_index",
        "/verify_responses/1/_ng_rollout_index",
    }
