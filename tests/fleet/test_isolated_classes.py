"""An environment's plain methods, in worker processes that hold replicas of it."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from palestra.config import InstanceConfig, ServerType
from palestra.errors import Bystander, CallError, EnvironmentFault, VerifierError
from palestra.fleet import build_server, server_client
from palestra.schema import TOOL_FAILURES, VerifyResponse, response_of
from palestra.server import ResourcesServer
from palestra.transport import CallContext, Peer, Target, calling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="how workers are stopped is Linux's"),
]

HERE = Path(__file__).parent
LIMIT_S = 3.0
BODY = {"responses_create_params": {"input": "?"}}
ANSWER = {**BODY, "response": response_of("4")}


@contextlib.asynccontextmanager
async def running(**fields: Any) -> AsyncIterator[ResourcesServer]:
    instance = InstanceConfig(
        name="env",
        type=ServerType.RESOURCES,
        implementation="serving",
        settings=fields,
        host="127.0.0.1",
        port=None,
        entrypoint="isolated_class.py",
        folder=HERE,
    )
    targets: dict[str, Target] = {}
    server = build_server(instance, server_client(targets, {}))
    assert isinstance(server, ResourcesServer)
    targets["env"] = Target("env", "resources_servers", local=server)
    await server.start_workers()
    try:
        yield server
    finally:
        await server.shut_down()


async def ending(peer: Peer, path: str, body: dict[str, Any]) -> CallError | None:
    """How a call ends for a rollout that has `LIMIT_S` seconds."""
    with calling(CallContext(deadline=time.monotonic() + LIMIT_S)):
        try:
            if path == "/act":
                await peer.call_tool("act", body)
            else:
                await peer.notify(path, body)
        except CallError as error:
            return error
    return None


async def seeded(server: ResourcesServer) -> Peer:
    peer = server.server_client.peer("env")
    await peer.notify("/seed_session", BODY)
    return peer


async def verified(peer: Peer, **fields: Any) -> dict[str, Any]:
    result = await peer.call("/verify", {**ANSWER, **fields}, VerifyResponse)
    return {"reward": result.reward, **(result.model_extra or {})}


def test_a_session_stays_in_one_process_which_is_not_the_servers() -> None:
    async def rollout() -> tuple[str, str, dict[str, Any]]:
        async with running() as server:
            peer = await seeded(server)
            said = await peer.call_tool("act", {"kind": "fine"})
            looked = await peer.call_tool("look", {})
            return said, looked, await verified(peer, topic="sums")

    said, looked, result = asyncio.run(rollout())

    assert (orjson.loads(said), orjson.loads(looked)) == ({"same process": True}, True)
    assert result["same_process"]
    assert result["process"] != os.getpid()
    assert (result["reward"], result["topic"]) == (1.0, "sums")


@pytest.mark.parametrize(
    ("answer", "times"),
    [("x", 2_000_000), ("half \ud83d", 1)],
    ids=["long", "half a surrogate pair"],
)
def test_whatever_a_verification_says_arrives(answer: str, times: int) -> None:
    async def rollout() -> dict[str, Any]:
        async with running() as server:
            peer = await seeded(server)
            with calling(CallContext(deadline=time.monotonic() + 10)):
                return await verified(peer, response=response_of(answer), times=times)

    assert asyncio.run(rollout())["text"] == answer * times


def test_what_a_tool_raises_is_text_for_the_model_and_told_in_the_row() -> None:
    async def rollout() -> tuple[str, str, str, dict[str, Any]]:
        async with running() as server:
            peer = await seeded(server)
            refused = await peer.call_tool("act", {"kind": "refuse"})
            raised = await peer.call_tool("act", {"kind": "raise"})
            misfit = await peer.call_tool("act", {"sort": 1})
            return refused, raised, misfit, await verified(peer)

    refused, raised, misfit, result = asyncio.run(rollout())

    assert orjson.loads(refused) == {"error": "not now"}
    assert orjson.loads(raised) == {"error": "LookupError: no key"}
    assert "kind" in orjson.loads(misfit)["error"]
    assert [fault["type"] for fault in result[TOOL_FAILURES]] == ["LookupError"]
    assert "/author_deeds.py:" in result[TOOL_FAILURES][0]["at"]


def test_what_hangs_or_breaks_ends_its_own_session_alone() -> None:
    calls = {
        "seed hangs": ("/seed_session", {**BODY, "seed": "regex"}),
        "seed exits": ("/seed_session", {**BODY, "seed": "exit"}),
        "tool hangs": ("/act", {"kind": "deaf"}),
        "tool crashes": ("/act", {"kind": "segfault"}),
        "verify hangs": ("/verify", {**ANSWER, "verify_as": "loop"}),
        "verify exits": ("/verify", {**ANSWER, "verify_as": "sys exit"}),
    }

    async def all_at_once() -> tuple[list[CallError | None], list[dict[str, Any]]]:
        async with running() as server:
            peers = [await seeded(server) for _ in calls]
            good = [await seeded(server) for _ in range(3)]
            endings = asyncio.gather(
                *(ending(p, *call) for p, call in zip(peers, calls.values(), strict=True))
            )
            scored = await asyncio.gather(*(verified(peer) for peer in good))
            return list(await endings), scored

    endings, scored = asyncio.run(all_at_once())

    kinds = {name: type(error) for name, error in zip(calls, endings, strict=True)}
    assert kinds == {
        name: VerifierError if name.startswith("verify") else EnvironmentFault for name in calls
    }
    hung = endings[0]
    assert hung is not None
    assert "author_deeds.py" in hung.evidence.traceback
    assert hung.evidence.traceback.endswith(" in backtrack")
    assert [result["same_process"] for result in scored] == [True] * 3


def test_sessions_that_share_a_killed_process_are_told_whose_fault_it_was() -> None:
    async def many() -> list[CallError | None]:
        async with running() as server:
            peers = [await seeded(server) for _ in range(40)]  # more than there are processes
            hung = asyncio.create_task(ending(peers[0], "/act", {"kind": "sleep"}))
            others = asyncio.gather(*(ending(p, "/look", {}) for p in peers[1:]))
            await others
            await hung
            return [hung.result(), *[await ending(p, "/verify", ANSWER) for p in peers[1:]]]

    endings = asyncio.run(many())

    assert isinstance(endings[0], EnvironmentFault)
    lost = [error for error in endings[1:] if error is not None]
    assert lost
    assert {type(error) for error in lost} == {Bystander}
    assert len(lost) < 5


def test_no_process_is_left_when_the_server_has_shut_down() -> None:
    async def processes() -> list[int]:
        async with running() as server:
            peers = [await seeded(server) for _ in range(3)]
            return [(await verified(peer))["process"] for peer in peers]

    for process in asyncio.run(processes()):
        assert not Path(f"/proc/{process}").exists()


def test_a_tool_that_the_row_offers_in_vain_is_in_the_row_beside_one_that_broke() -> None:
    offers = [{"type": "function", "name": name, "parameters": {}} for name in ("act", "actt")]

    async def rollout() -> dict[str, Any]:
        async with running() as server:
            peer = await seeded(server)
            await peer.call_tool("act", {"kind": "raise"})
            await peer.call_tool("actt", {})
            return await verified(peer, responses_create_params={"input": "q", "tools": offers})

    failures = asyncio.run(rollout())["tool_failures"]

    assert [(failure["tool"], failure["type"]) for failure in failures][1:] == [
        ("actt", "UnknownTool")
    ]
    assert failures[0]["tool"] == "act"
