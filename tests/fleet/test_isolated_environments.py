"""The object of a rollout of an environment in one file, in a worker process that can be killed."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from palestra.config import config_from_tree, environment_tree
from palestra.errors import Bystander, CallError, EnvironmentFault
from palestra.fleet import build_server, server_client
from palestra.schema import VerifyResponse, response_of
from palestra.server import EnvironmentServer
from palestra.transport import CallContext, Peer, Target, calling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="how workers are stopped is Linux's"),
]

FILE = Path(__file__).parent / "isolated_shelf.py"
LIMIT_S = 3.0
BODY = {"responses_create_params": {"input": "?"}, "wanted": 1}


@contextlib.asynccontextmanager
async def running(class_name: str = "Shelf") -> AsyncIterator[EnvironmentServer]:
    name = FILE.stem
    tree = environment_tree(FILE, class_name)
    config = config_from_tree({name: tree[name]})
    targets: dict[str, Target] = {}
    server = build_server(config.instance(name), server_client(targets, {}))
    assert isinstance(server, EnvironmentServer)
    targets["env"] = Target("env", "resources_servers", local=server)
    await server.start_workers()
    try:
        yield server
    finally:
        await server.shut_down()


async def seeded(server: EnvironmentServer) -> Peer:
    peer = server.server_client.peer("env")
    await peer.notify("/seed_session", BODY)
    return peer


async def taking(peer: Peer, kind: str) -> CallError | str:
    with calling(CallContext(deadline=time.monotonic() + LIMIT_S)):
        try:
            return await peer.call_tool("take", {"kind": kind})
        except CallError as error:
            return error


async def verified(peer: Peer) -> VerifyResponse:
    return await peer.call("/verify", {**BODY, "response": response_of("4")}, VerifyResponse)


def test_an_object_lives_in_one_process_which_is_not_the_servers() -> None:
    async def rollout() -> tuple[bool, VerifyResponse]:
        async with running() as server:
            peer = await seeded(server)
            await taking(peer, "fine")
            return orjson.loads(await peer.call_tool("look", {})), await verified(peer)

    looked, result = asyncio.run(rollout())

    assert looked
    assert result.reward_components == {"taken": 1.0, "here": 1.0}


def test_two_rollouts_have_two_objects() -> None:
    async def rollouts() -> list[float]:
        async with running() as server:
            peers = [await seeded(server) for _ in range(2)]
            await taking(peers[0], "fine")
            return [(await verified(peer)).reward for peer in peers]

    assert asyncio.run(rollouts()) == [2.0, 1.0]


@pytest.mark.parametrize("kind", ["regex", "exit", "sleep"])
def test_code_that_does_not_return_costs_its_own_rollout(kind: str) -> None:
    async def rollout() -> tuple[CallError | str, float, float]:
        async with running() as server:
            began = time.monotonic()
            ended = await taking(await seeded(server), kind)
            took_s = time.monotonic() - began
            return ended, took_s, (await verified(await seeded(server))).reward

    ended, took_s, next_reward = asyncio.run(rollout())

    assert isinstance(ended, EnvironmentFault)
    assert took_s < 2 * LIMIT_S
    assert next_reward == 1.0


def test_other_rollouts_of_a_killed_worker_are_tried_again() -> None:
    async def rollouts() -> CallError:
        async with running() as server:
            workers = server._palestra_workers
            assert workers is not None
            workers._places._most = 1
            other = await seeded(server)
            await taking(await seeded(server), "exit")
            with pytest.raises(CallError) as caught:
                await verified(other)
            return caught.value

    assert isinstance(asyncio.run(rollouts()), Bystander)


def test_a_number_beside_weights_is_the_reward_from_a_worker_too() -> None:
    async def rollout() -> VerifyResponse:
        async with running("Weighted") as server:
            return await verified(await seeded(server))

    assert asyncio.run(rollout()).reward == 4.0


def test_without_isolation_the_object_is_in_the_servers_process() -> None:
    async def rollout() -> VerifyResponse:
        async with running("Inline") as server:
            peer = await seeded(server)
            await taking(peer, "fine")
            return await verified(peer)

    assert asyncio.run(rollout()).reward == 2.0
    assert os.getpid()
