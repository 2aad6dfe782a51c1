"""Many requests at once through one model server, over sockets on both sides."""

import asyncio
from typing import Any

import orjson
import pytest
from endpoint_fakes import VLLM, FakeEndpoint, fake_endpoints, reply, vllm_model
from served import served

from palestra.system import raise_descriptor_limit
from palestra.transport import HttpClient, HttpReply, HttpRequest

AT_ONCE = 2000


def echo(body: dict[str, Any]) -> HttpReply:
    """The captured completion, saying what the request's last message says."""
    _, plain = VLLM["chat"]
    (choice,) = plain["choices"]
    said = {**choice["message"], "content": body["messages"][-1]["content"]}
    return reply(200, {**plain, "choices": [{**choice, "message": said}]})


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 2])
def test_two_thousand_requests_at_once_each_get_their_own_answer(count: int) -> None:
    raise_descriptor_limit()

    async def run() -> tuple[int, list[str]]:
        http, client = HttpClient(), HttpClient()
        try:
            async with asyncio.timeout(150), fake_endpoints(count, echo) as fakes:
                server = vllm_model(http, base_url=[fake.url for fake in fakes])
                for fake in fakes:
                    fake.held.clear()
                async with served(server) as url:
                    async with asyncio.TaskGroup() as tasks:
                        asked = [
                            tasks.create_task(ask(client, url, f"number {number}"))
                            for number in range(AT_ONCE)
                        ]
                        await until_all_wait(fakes)
                        for fake in fakes:
                            fake.held.set()
                    return server.server_client.retries.retries, [each.result() for each in asked]
        finally:
            await http.aclose()
            await client.aclose()

    retries, answers = asyncio.run(run())

    assert answers == [f"number {number}" for number in range(AT_ONCE)]
    assert retries == 0


async def until_all_wait(fakes: list[FakeEndpoint]) -> None:
    someone = asyncio.Event()
    for fake in fakes:
        fake.someone_waits = someone
    while sum(fake.waiting for fake in fakes) < AT_ONCE:
        someone.clear()
        await someone.wait()


async def ask(http: HttpClient, url: str, text: str) -> str:
    body = orjson.dumps({"input": text})
    headers = {"content-type": "application/json"}
    request = HttpRequest("POST", f"{url}/v1/responses", headers, body, timeout_s=120)
    found = await http.send(request)
    assert found.status == 200, found.body
    said: str = orjson.loads(found.body)["output"][0]["content"][0]["text"]
    return said
