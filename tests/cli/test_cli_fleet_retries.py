"""Retries of a running fleet's model server, as the commands beside it show them."""

import json

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World, reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

RATE_LIMIT = {"error": {"message": "Rate limit reached for tiny"}}


def test_a_collection_and_the_status_say_that_the_endpoint_answers_429(
    world: World, fake: FakeEndpoint
) -> None:
    busy = True

    def answer(_: int) -> None:
        fake.status, fake.body = (429, RATE_LIMIT) if busy else (200, reply())

    fake.before_answer = answer
    servers = ("--config", MULTI_STEP, "--config", OPENAI, *fake.policy, world.head)
    world.start("palestra", "run", *servers).until("servers ready!")
    rows = ("--agent", AGENT, "--input", TASKS, "--limit", "1", "--output", "out/r.jsonl")
    collection = world.start("palestra", "collect", *rows, "--progress", "plain", world.head)
    collection.until("answered 429 (Rate limit reached for tiny), next try in")
    status = json.loads(world.run("palestra", "status", "--json", world.head).out)
    busy = False

    assert collection.ended(timeout_s=60) == 0
    assert "retried, the last: policy_model" in collection.text()
    [retries] = [server["retries"] for server in status if server["retries"]]
    assert "answered 429 (Rate limit reached for tiny)" in retries
