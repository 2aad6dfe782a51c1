"""`NeMoGymAsyncOpenAI` asks an endpoint as the model servers of the field expect it."""

import asyncio
import json
import time
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp import ClientResponseError

from palestra.compat import http
from palestra.compat.http import close_global_client
from palestra.compat.nemo_gym import openai_utils
from palestra.compat.nemo_gym.openai_utils import NeMoGymAsyncOpenAI
from palestra.testing import EndpointError, ScriptedEndpoint, scripted_endpoint
from palestra.transport import CallContext, calling

BUSY = EndpointError(503, "overloaded")
BROKEN = EndpointError(500, "a bug")


def ask(endpoint: ScriptedEndpoint) -> Any:
    async def send() -> Any:
        client = NeMoGymAsyncOpenAI(base_url=f"{endpoint.url}/v1", api_key="sk-1")
        try:
            return await client.create_chat_completion(model="m", messages=[])
        finally:
            await close_global_client()

    return asyncio.run(send())


def test_a_busy_endpoint_is_asked_again() -> None:
    with scripted_endpoint(BUSY, "4") as endpoint:
        completion = ask(endpoint)

    assert completion["choices"][0]["message"]["content"] == "4"
    assert len(endpoint.asked) == 2


@pytest.mark.slow
def test_the_third_status_500_is_final_and_has_its_body() -> None:
    endpoints = scripted_endpoint(BROKEN, BROKEN, BROKEN)

    with endpoints as endpoint, pytest.raises(ClientResponseError) as caught:
        ask(endpoint)

    assert caught.value.status == 500
    assert b"a bug" in caught.value.response_content  # type: ignore[attr-defined]
    assert len(endpoint.asked) == 3


def test_a_refusal_is_final_at_once() -> None:
    endpoints = scripted_endpoint(EndpointError(400, "no such model"))

    with endpoints as endpoint, pytest.raises(ClientResponseError) as caught:
        ask(endpoint)

    assert caught.value.status == 400
    assert len(endpoint.asked) == 1


def test_an_answer_that_is_not_json_is_named_with_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = Replaced()
    page.text = b"<html>Welcome</html>"
    monkeypatch.setattr(openai_utils, "request", AsyncMock(return_value=page))

    with pytest.raises(json.JSONDecodeError, match=r"http://x/v1/responses answered .*Welcome"):
        asyncio.run(NeMoGymAsyncOpenAI(base_url="http://x/v1").create_response(input="q"))


def test_a_request_leaves_it_to_the_server_to_say_that_the_rollouts_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = AsyncMock()
    monkeypatch.setattr(http, "global_client", lambda: client)

    with calling(CallContext(deadline=time.monotonic() + 2)):
        asyncio.run(http.request("GET", "http://x"))

    assert client.request.call_args.kwargs["timeout"].total > 2


class Replaced:
    """What suites of the field put in place of a response."""

    ok = True
    status = 200
    text = b'{"id": "r"}'

    async def read(self) -> bytes:
        return self.text


def test_request_is_looked_up_in_the_module_when_called(monkeypatch: pytest.MonkeyPatch) -> None:
    request = AsyncMock(return_value=Replaced())
    monkeypatch.setattr(openai_utils, "request", request)

    answer = asyncio.run(NeMoGymAsyncOpenAI(base_url="http://x/v1").create_response(input="q"))

    assert answer == {"id": "r"}
    assert request.call_args.args == ("POST", "http://x/v1/responses")
    assert request.call_args.kwargs["json"] == {"input": "q"}
