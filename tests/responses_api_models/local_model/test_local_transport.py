import asyncio
from typing import Any

import orjson
import pytest
from engine_stand_ins import FakePort, post, running, says, until

from palestra.errors import DeadlineExceeded
from palestra.responses_api_models.local_model.running import EngineTransport
from palestra.transport import HttpReply

ADD = {"type": "function", "function": {"name": "add"}}


def test_no_more_requests_are_open_than_there_is_room_for() -> None:
    gate = asyncio.Event()

    async def scenario() -> FakePort:
        async def answer(_body: Any) -> HttpReply:
            await gate.wait()
            return says("ok")

        port = FakePort(answer)
        async with running() as engine, asyncio.TaskGroup() as group:
            transport = EngineTransport(port, engine, at_once=3, max_tokens=9, context_tokens=64)
            for index in range(50):
                group.create_task(post(transport, f"prompt {index}"))
            await until(lambda: transport.waiting == 47 and port.open == 3)
            gate.set()
        return port

    port = asyncio.run(scenario())
    assert port.most_open == 3
    assert len(port.bodies) == 50


def test_requests_with_the_same_prompt_run_one_after_the_other() -> None:
    async def scenario() -> int:
        async def answer(_body: Any) -> HttpReply:
            await asyncio.sleep(0)
            return says("ok")

        port = FakePort(answer)
        async with running() as engine, asyncio.TaskGroup() as group:
            transport = EngineTransport(port, engine, at_once=8, max_tokens=9, context_tokens=64)
            for _ in range(8):
                group.create_task(post(transport, "the same"))
        return port.most_open

    assert asyncio.run(scenario()) == 1


def test_waiting_for_room_ends_at_the_deadline() -> None:
    async def scenario() -> None:
        async def never(_body: Any) -> HttpReply:
            await asyncio.Event().wait()
            raise AssertionError

        async with running() as engine:
            transport = EngineTransport(
                FakePort(never), engine, at_once=1, max_tokens=9, context_tokens=64
            )
            first = asyncio.create_task(post(transport, "a"))
            await asyncio.sleep(0)
            try:
                await post(transport, "b", timeout_s=0.05)
            finally:
                first.cancel()

    with pytest.raises(
        DeadlineExceeded, match=r"had no room .*within 0\.1 s: 1 requests were running"
    ):
        asyncio.run(scenario())


def test_a_request_that_gives_up_leaves_its_room_to_the_next() -> None:
    async def scenario() -> HttpReply:
        async def answer(body: Any) -> HttpReply:
            if body["messages"][0]["content"] == "slow":
                await asyncio.Event().wait()
            return says("ok")

        port = FakePort(answer)
        async with running() as engine:
            transport = EngineTransport(port, engine, at_once=1, max_tokens=9, context_tokens=64)
            slow = asyncio.create_task(post(transport, "slow"))
            await until(lambda: port.open == 1)
            slow.cancel()
            return await post(transport, "quick", timeout_s=5)

    assert asyncio.run(scenario()).status == 200


def test_requests_are_mended_on_the_way_out_and_answers_on_the_way_in() -> None:
    async def scenario() -> tuple[FakePort, HttpReply]:
        async def answer(_body: Any) -> HttpReply:
            return says('<tool_call>{"name": "add"}</tool_call>')

        port = FakePort(answer)
        async with running() as engine:
            transport = EngineTransport(port, engine, at_once=1, max_tokens=9, context_tokens=64)
            return port, await post(transport, "go", tools=[ADD])

    port, reply = asyncio.run(scenario())
    assert port.bodies[0]["max_tokens"] == 9
    message = orjson.loads(reply.body)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": "{}"}


def test_a_refusal_passes_as_it_came() -> None:
    async def scenario() -> HttpReply:
        async def answer(_body: Any) -> HttpReply:
            return HttpReply(400, b"too long")

        async with running() as engine:
            transport = EngineTransport(
                FakePort(answer), engine, at_once=1, max_tokens=9, context_tokens=64
            )
            return await post(transport, "go", tools=[ADD])

    assert asyncio.run(scenario()) == HttpReply(400, b"too long")
