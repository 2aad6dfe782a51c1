"""Connections that break over a request: how often it is sent, counted at a real listener."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from cutting_endpoint import cutting_endpoint

import palestra
from palestra.config import load_config
from palestra.fleet import EMBEDDED, Fleet
from palestra.responses_api_models.chat import Upstream
from palestra.training import (
    Attempts,
    ClientSettings,
    Failed,
    IncompleteRollouts,
    RolloutClient,
    RolloutRequest,
)
from palestra.transport import CallContext, ConnectionFailed, HttpClient, RetryPolicy, calling

QUICK = RetryPolicy(first_wait_s=0.01)


async def post(url: str, *, deadline_s: float) -> None:
    http = HttpClient()
    upstream = Upstream(http, server="policy_model", model="m", policy=QUICK)
    try:
        with calling(CallContext(deadline=time.monotonic() + deadline_s)):
            await upstream.post(f"{url}/chat/completions", {"messages": []})
    finally:
        await http.aclose()


def test_a_request_that_a_living_endpoint_cuts_is_sent_three_times() -> None:
    async def run() -> int:
        async with cutting_endpoint() as endpoint:
            with pytest.raises(
                ConnectionFailed, match="3 connections broke over this request"
            ) as caught:
                await post(endpoint.url, deadline_s=20.0)
            assert caught.value.retriable
            return len(endpoint.bodies)

    assert asyncio.run(run()) == 3


def test_an_endpoint_that_answers_nothing_is_waited_for_and_its_tries_are_counted() -> None:
    async def run() -> tuple[int, ConnectionFailed]:
        async with cutting_endpoint(is_alive=False) as endpoint:
            with pytest.raises(ConnectionFailed) as caught:
                await post(endpoint.url, deadline_s=0.3)
            return len(endpoint.bodies), caught.value

    tries, failure = asyncio.run(run())

    assert tries > 3
    assert failure.retriable
    assert f"after {tries} tries" in failure.message


@pytest.mark.slow
def test_each_attempt_sends_a_request_that_is_cut_three_times() -> None:
    data = Path(palestra.__file__).parent / "resources_servers/mcqa/data/example.jsonl"
    row = json.loads(data.read_text().splitlines()[0])
    question = json.dumps(row["responses_create_params"]["input"][0]["content"])[:40].encode()

    async def run() -> tuple[Failed, int]:
        async with cutting_endpoint() as endpoint:
            config = load_config(
                config_paths=[
                    "resources_servers/mcqa/configs/mcqa.yaml",
                    "responses_api_models/vllm_model/configs/vllm_model.yaml",
                ],
                overrides=[
                    f"policy_base_url={endpoint.url}",
                    "policy_api_key=none",
                    "policy_model_name=m",
                ],
                use_env_yaml=False,
            )
            attempts = Attempts(first_pause_s=0.0)
            settings = ClientSettings(token_ids=False, attempts=attempts)
            fleet = Fleet(config, default_placement=EMBEDDED)
            async with (
                RolloutClient(fleet, settings) as client,
                client.submit([RolloutRequest(row=row, task_id=0)]) as batch,
            ):
                with pytest.raises(IncompleteRollouts) as caught:
                    await batch.gather()
            (outcome,) = caught.value.outcomes
            assert isinstance(outcome, Failed)
            return outcome, sum(question in body for body in endpoint.bodies)

    failure, requests = asyncio.run(run())

    assert failure.attempts == 3
    # A connection that was kept open and broke is replaced once, which is no try of the call.
    assert 9 <= requests <= 12
    assert "3 connections broke over this request" in failure.message
