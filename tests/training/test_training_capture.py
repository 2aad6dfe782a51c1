"""A real environment, agent and model server in one process: what reaches the model server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from training_world import QUICK, request

from palestra.config import load_config
from palestra.fleet import (
    ChildExit,
    RunningInstance,
    assembled,
    listen,
    server_client,
    serving,
)
from palestra.responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from palestra.schema import (
    Response,
    ResponseCreateParams,
    VerifyRequest,
    VerifyResponse,
    called,
    response_of,
)
from palestra.server import (
    ModelReference,
    ModelServer,
    ModelServerConfig,
    ResourcesReference,
    ResourcesServer,
    ResourcesServerConfig,
    Server,
    Session,
    tool,
)
from palestra.training import (
    ClientSettings,
    Completed,
    Failed,
    FailureClass,
    FleetPool,
    IncompleteRollouts,
    OnIncomplete,
    RemoteRolloutClient,
    RolloutClient,
    RolloutSource,
    TokenDiscontinuity,
)
from palestra.training.service import RolloutService

pytestmark = pytest.mark.anyio

Turn = Callable[[int], Awaitable[None]]
"""What happens during a call of the model, by its number from 0."""


class TwoTurns(ModelServer):
    """Calls a tool, then answers; its ids continue each other."""

    _during: Any = None

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        turn = 0 if isinstance(body.input, str) else 1
        if self._during is not None:
            await self._during(turn)
        made = response_of(called("look", {}) if turn == 0 else "done", model="m")
        item = made.output[-1]
        item.prompt_token_ids = [1, 2] if turn == 0 else [1, 2, 3, 4]
        item.generation_token_ids = [3] if turn == 0 else [5]
        item.generation_log_probs = [-0.5]
        return made


class Stripping(SimpleAgent):
    """Passes nothing on that it does not know."""

    async def respond(self, params: ResponseCreateParams, **servers: Any) -> Response:
        made = await super().respond(params, **servers)
        for item in made.output:
            for name in ("prompt_token_ids", "generation_token_ids", "generation_log_probs"):
                setattr(item, name, None)
        return made


class Looking(ResourcesServer):
    """Its tool may take for ever."""

    _blocks: bool = False
    _released: Any = None
    _looked: Any = None

    @tool
    async def look(self, session: Session) -> str:
        """Look around."""
        session.at_end(self._released.set)
        self._looked.set()
        if self._blocks:
            await asyncio.Event().wait()
        return "nothing"

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class Here:
    """The servers of an assembly, as a client wants them."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.instances: dict[str, RunningInstance] = {}
        self.ending: ChildExit | None = None

    async def watch(self) -> None:
        await asyncio.Event().wait()


CONFIG = """
model: {responses_api_models: {openai_model: {}}}
env: {resources_servers: {x: {}}}
agent: {responses_api_agents: {simple_agent: {}}}
"""


@contextlib.asynccontextmanager
async def world(
    tmp_path: Any,
    *,
    agent_class: type[SimpleAgent] = SimpleAgent,
    during: Turn | None = None,
    blocks: bool = False,
    env_class: type[Any] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[RolloutClient, Looking]]:
    nobody = server_client({}, {})
    model = TwoTurns(config=ModelServerConfig(name="model"), server_client=nobody)
    model._during = during
    env = (env_class or Looking)(config=ResourcesServerConfig(name="env"), server_client=nobody)
    env._blocks, env._released, env._looked = blocks, asyncio.Event(), asyncio.Event()
    agent = agent_class(
        config=SimpleAgentConfig(
            name="agent",
            resources_server=ResourcesReference(type="resources_servers", name="env"),
            model_server=ModelReference(type="responses_api_models", name="model"),
        ),
        server_client=nobody,
    )
    path = tmp_path / "fleet.yaml"
    path.write_text(CONFIG)
    (tmp_path / "resources_servers" / "x").mkdir(parents=True)
    (tmp_path / "resources_servers" / "x" / "app.py").touch()
    found = load_config(config_paths=[str(path)], cwd=tmp_path, required=(), use_env_yaml=False)
    stand_ins: dict[str, Server] = {"model": model, "env": env, "agent": agent}
    async with assembled(found, [], stand_ins) as assembly:
        given: dict[str, Any] = {"attempts": QUICK, "memory_reserve": 0.0}
        async with RolloutClient(
            contextlib.nullcontext(Here(assembly.client)), ClientSettings(**given | settings)
        ) as client:
            yield client, env


async def test_the_turns_of_a_rollout_are_one_sequence(tmp_path: Any) -> None:
    async with world(tmp_path) as (client, _):
        (found,) = await client.submit([request()]).gather()

    assert isinstance(found, Completed)
    assert found.flat.ids == [1, 2, 3, 4, 5]
    assert found.flat.loss_mask == [0, 0, 1, 0, 1]
    assert found.timings.tool_s is not None
    assert found.timings.verify_s is not None


async def test_ids_that_the_agent_drops_come_from_the_model_server(tmp_path: Any) -> None:
    async with world(tmp_path, agent_class=Stripping) as (client, _):
        (found,) = await client.submit([request()]).gather()

    assert isinstance(found, Completed)
    assert not found.masked
    assert found.flat.ids == [1, 2, 3, 4, 5]


class Judging(Looking):
    """Asks the policy's own model for its verdict."""

    repeatable = True

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        judge = self.server_client.peer("model")
        await judge.call("/v1/responses", {"input": "Is it right?"}, Response)
        return self.reply(body, 1.0)


@pytest.mark.parametrize("agent_class", [SimpleAgent, Stripping])
async def test_what_a_judge_said_is_none_of_the_rollouts_turns(
    tmp_path: Any, agent_class: type[SimpleAgent]
) -> None:
    async with world(tmp_path, agent_class=agent_class, env_class=Judging) as (client, _):
        (found,) = await client.submit([request()]).gather()

    assert isinstance(found, Completed)
    assert [chain.flat.ids for chain in found.chains] == [[1, 2, 3, 4, 5]]


class Appending(SimpleAgent):
    """Writes into the lists that it was given."""

    async def respond(self, params: ResponseCreateParams, **servers: Any) -> Response:
        made = await super().respond(params, **servers)
        made.output[-1].generation_token_ids.append(2)
        made.output[-1].generation_log_probs.append(0.0)
        return made


async def test_ids_that_an_agent_adds_in_place_are_found(tmp_path: Any) -> None:
    async with world(tmp_path, agent_class=Appending) as (client, _):
        with pytest.raises(TokenDiscontinuity, match="differ from the received ones"):
            await client.submit([request()]).gather()


async def test_weights_bumped_in_the_middle_of_a_call_are_on_both_ends_of_it(tmp_path: Any) -> None:
    clients: list[RolloutClient] = []

    async def during(turn: int) -> None:
        if turn == 1:
            await clients[0].set_weight_version(8)

    async with world(tmp_path, during=during) as (client, _):
        clients.append(client)
        await client.set_weight_version(7)
        (found,) = await client.submit([request()]).gather()

    assert isinstance(found, Completed)
    assert [(turn.weights_start, turn.weights_end) for turn in found.turns] == [(7, 7), (7, 8)]
    assert (found.weights_start, found.weights_end, found.oldest_weights) == (7, 8, 7)


async def test_a_call_that_runs_over_an_update_has_both_versions(tmp_path: Any) -> None:
    clients: list[RolloutClient] = []

    async def during(turn: int) -> None:
        if turn == 0:
            await clients[0].hold_calls()
            await clients[0].set_weight_version(8)

    async with world(tmp_path, during=during) as (client, _):
        clients.append(client)
        await client.set_weight_version(7)
        (found,) = await client.submit([request()]).gather()

    assert isinstance(found, Completed)
    assert [(turn.weights_start, turn.weights_end) for turn in found.turns] == [(7, 8), (8, 8)]
    assert (found.oldest_weights, found.weight_versions) == (7, [7, 8])


@contextlib.asynccontextmanager
async def reached(way: str, client: RolloutClient) -> AsyncIterator[RolloutSource]:
    """The client itself, or a client of a service over it, or a pool of that."""
    if way == "direct":
        yield client
        return
    service, sock = RolloutService(client), listen("127.0.0.1", 0)
    remote = partial(RemoteRolloutClient, f"http://127.0.0.1:{sock.getsockname()[1]}")
    other: RolloutSource = remote() if way == "service" else FleetPool({"one": remote})
    async with serving(service.app(), sock), service, other:
        yield other


@pytest.mark.parametrize("way", ["direct", "service", "pool"])
@pytest.mark.parametrize("token_ids", [True, False])
async def test_no_call_begins_while_the_weights_change(
    tmp_path: Any, way: str, token_ids: bool
) -> None:
    clients: list[RolloutSource] = []
    begun: list[tuple[int, int | None]] = []

    async def during(turn: int) -> None:
        begun.append((turn, clients[0].weight_version))
        if turn == 0:
            await clients[1].hold_calls()

    async with (
        world(tmp_path, during=during, token_ids=token_ids) as (inner, env),
        reached(way, inner) as client,
    ):
        clients += [inner, client]
        await client.set_weight_version(7)
        batch = client.submit([request()])
        async with asyncio.timeout(10):
            await env._looked.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        await client.set_weight_version(8)
        (found,) = await batch.gather()

    assert begun == [(0, 7), (1, 8)]
    assert isinstance(found, Completed)
    versions = [(turn.weights_start, turn.weights_end) for turn in found.turns]
    assert versions == ([(7, 7), (8, 8)] if token_ids else [])


async def test_a_rollout_whose_call_is_held_can_be_cancelled(tmp_path: Any) -> None:
    begun: list[int] = []

    async def during(turn: int) -> None:
        begun.append(turn)

    async with world(tmp_path, during=during) as (client, _):
        await client.hold_calls()
        batch = client.submit([request()])
        for _ in range(50):
            await asyncio.sleep(0)
        batch.cancel()
        (found,) = await batch.gather()

    assert isinstance(found, Failed)
    assert (found.failure, begun) == (FailureClass.CANCELLED, [])


async def test_cancelling_ends_the_environments_session(tmp_path: Any) -> None:
    async with world(tmp_path, blocks=True) as (client, env):
        handle = client.submit([request()])
        async with asyncio.timeout(10):
            await env._looked.wait()
        handle.cancel()
        await handle.aclose()

        assert len(env._palestra_sessions) == 0
        assert env._released.is_set()


async def test_a_call_that_takes_too_long_ends_the_rollout_and_is_named(tmp_path: Any) -> None:
    async with world(tmp_path, blocks=True, call_timeout_s=0.05) as (client, _):
        with pytest.raises(IncompleteRollouts, match=r"env/look took longer than 0.05 s"):
            await client.submit([request()]).gather()


class Outside(Looking):
    """What it does outside of its session it does for good."""

    repeatable = False


class Safe(Looking):
    """What it does ends with its session."""

    repeatable = True


class OnlyVerifying(ResourcesServer):
    """Has nothing but a verifier without a session."""

    _blocks: bool = False
    _released: Any = None
    _looked: Any = None

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


@pytest.mark.parametrize(
    ("env_class", "attempts"), [(Safe, 2), (Outside, 1), (Looking, 1), (OnlyVerifying, 2)]
)
async def test_only_what_is_safe_to_begin_again_is_begun_again(
    tmp_path: Any, env_class: type[Looking], attempts: int
) -> None:
    begun: list[int] = []

    async def during(turn: int) -> None:
        begun.append(turn)
        await asyncio.Event().wait()

    settings: dict[str, Any] = {
        "rollout_timeout_s": 0.05,
        "on_incomplete": OnIncomplete.MASK,
        "min_fraction": 0.0,
    }
    async with world(tmp_path, env_class=env_class, during=during, **settings) as (client, _):
        found = await client.submit([request()]).next()

    assert len(begun) == attempts
    assert isinstance(found, Failed)
    assert ("`repeatable = True`" in found.evidence.hint) == (attempts == 1)
    assert found.retriable == (attempts > 1)


class Waiting(Looking):
    """Its tool waits until the weights are new."""

    _updated: Any = None

    @tool
    async def look(self, session: Session) -> str:
        """Look around."""
        self._looked.set()
        await self._updated.wait()
        return "nothing"


async def continued(tmp_path: Any, **settings: Any) -> tuple[Any, Any]:
    """A rollout of two turns whose weights go from 7 to 8 between them, and its batch's summary."""
    policy = {"env_class": Waiting, "on_stale": "continue"}
    async with world(tmp_path, **policy, **settings) as (client, env), asyncio.timeout(20):
        env._updated = asyncio.Event()  # type: ignore[attr-defined]
        await client.set_weight_version(7)
        batch = client.submit([request()])
        await env._looked.wait()
        await client.set_weight_version(8)
        env._updated.set()  # type: ignore[attr-defined]
        (outcome,) = await batch.gather()
        return outcome, batch.summary()


async def test_a_rollout_goes_on_over_an_update_and_its_old_turn_is_not_trained_on(
    tmp_path: Any,
) -> None:
    outcome, summary = await continued(tmp_path, max_staleness=0)

    assert isinstance(outcome, Completed)
    assert [(turn.weights_start, turn.trained) for turn in outcome.turns] == [(7, False), (8, True)]
    assert outcome.flat.ids == [1, 2, 3, 4, 5]
    assert outcome.flat.loss_mask == [0, 0, 0, 0, 1]
    assert (outcome.attempt, outcome.weight_versions, outcome.masked) == (1, [7, 8], False)
    assert (summary.completed, summary.masked, summary.failed) == (1, 0, {})


async def test_a_continued_rollout_is_whole_where_its_oldest_turn_is_recent(tmp_path: Any) -> None:
    outcome, _ = await continued(tmp_path, max_staleness=1)

    assert outcome.flat.loss_mask == [0, 0, 1, 0, 1]
    assert outcome.weight_versions == [7, 8]
