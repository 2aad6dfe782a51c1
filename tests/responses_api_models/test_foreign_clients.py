"""Clients that are not ours, unmodified, in front of a model server at a real socket.

LiteLLM is not among the development dependencies (it brings 60 packages, and an OpenAI client of
another version): `make test-clients` installs it apart and runs its tests, which skip elsewhere.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from endpoint_fakes import VLLM, ScriptedTransport, reply, vllm_model
from model_fakes import TokenModel
from openai import AsyncOpenAI, BadRequestError, UnprocessableEntityError
from served import served

from palestra.server import ModelServer, ModelServerConfig
from palestra.transport import HttpClient, ServerClient

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
TOKENS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def token_model() -> TokenModel:
    config = ModelServerConfig(name="policy_model")
    return TokenModel(config=config, server_client=ServerClient({}, HttpClient()))


def with_openai(server: ModelServer, story: Callable[[AsyncOpenAI], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with (
            asyncio.timeout(30),
            served(server) as url,
            AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        ):
            return await story(client)

    return asyncio.run(run())


def test_the_openai_client_carries_token_ids_through_a_conversation() -> None:
    server = token_model()

    async def story(client: AsyncOpenAI) -> Any:
        messages: list[Any] = [{"role": "user", "content": "weather?"}]
        first = await client.chat.completions.create(model="m", messages=messages, tools=[TOOL])
        message = first.choices[0].message
        messages.append(message)
        call = message.tool_calls[0]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        return await client.chat.completions.create(model="m", messages=messages, tools=[TOOL])

    last = with_openai(server, story).choices[0].message.model_dump()

    assert [last[name] for name in TOKENS] == [[1, 2, 3, 9], [4, 5], [-0.1, -0.2]]
    call = server.asked[1].input[2]
    assert (call.arguments, call.generation_token_ids) == ('{ "city": "Paris" }', [4, 5])


def test_the_openai_client_gets_the_stream_that_it_asks_for() -> None:
    async def story(client: AsyncOpenAI) -> Any:
        async with client.chat.completions.stream(
            model="m",
            messages=[{"role": "user", "content": "weather?"}],
            tools=[TOOL],
            stream_options={"include_usage": True},
        ) as stream:
            return await stream.get_final_completion()

    found = with_openai(token_model(), story)

    (choice,) = found.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.arguments == '{ "city": "Paris" }'
    assert found.usage.total_tokens == 5
    assert choice.message.model_dump()["generation_token_ids"] == [4, 5]


def test_the_openai_clients_responses_work_too() -> None:
    async def story(client: AsyncOpenAI) -> Any:
        return await client.responses.create(model="m", input="hi")

    assert with_openai(token_model(), story).output_text == "sunny"


def test_a_stream_of_responses_is_refused_by_name() -> None:
    async def story(client: AsyncOpenAI) -> Any:
        return await client.responses.create(model="m", input="hi", stream=True)

    with pytest.raises(UnprocessableEntityError, match="/stream"):
        with_openai(token_model(), story)


def test_a_vllm_models_chat_passes_through_to_the_openai_client() -> None:
    server = vllm_model(ScriptedTransport([reply(*VLLM["chat"])]))

    async def story(client: AsyncOpenAI) -> Any:
        return await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        )

    found = with_openai(server, story)

    assert found.choices[0].message.content == "I'm glad you're enjoying the service."
    assert found.id == "chatcmpl-a5ae7ffd938a0105"


def test_a_refusal_reaches_the_openai_client_in_the_providers_words() -> None:
    server = vllm_model(ScriptedTransport([reply(*VLLM["bad grammar"])]))

    async def story(client: AsyncOpenAI) -> Any:
        await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        )

    with pytest.raises(BadRequestError, match="Invalid grammar specification: 'triggers'"):
        with_openai(server, story)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # LiteLLM's own
@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_litellm_carries_token_ids_through_a_conversation(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    server = token_model()

    async def story() -> Any:
        async with asyncio.timeout(50), served(server) as url:
            asked = {"model": f"{provider}/m", "api_base": f"{url}/v1", "api_key": "none"}
            messages: list[Any] = [{"role": "user", "content": "weather?"}]
            first = await litellm.acompletion(messages=messages, tools=[TOOL], **asked)
            message = first.choices[0].message
            call_id = message.tool_calls[0].id
            messages += [message, {"role": "tool", "tool_call_id": call_id, "content": "sunny"}]
            return await litellm.acompletion(messages=messages, tools=[TOOL], **asked)

    last = asyncio.run(story()).choices[0].message

    assert last.content == "sunny"
    assert [last.provider_specific_fields[name] for name in TOKENS] == [
        [1, 2, 3, 9],
        [4, 5],
        [-0.1, -0.2],
    ]
    assert server.asked[1].input[2].generation_token_ids == [4, 5]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # LiteLLM's own
def test_litellm_speaks_messages_with_a_model_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")

    async def story() -> Any:
        async with asyncio.timeout(50), served(token_model()) as url:
            messages = [{"role": "user", "content": "weather?"}]
            asked = {"model": "anthropic/m", "api_base": url, "api_key": "none", "max_tokens": 9}
            whole = await litellm.acompletion(messages=messages, tools=[TOOL], **asked)
            stream = await litellm.acompletion(
                messages=messages, tools=[TOOL], stream=True, **asked
            )
            chunks = [chunk async for chunk in stream]
            return whole, litellm.stream_chunk_builder(chunks, messages=messages)

    for found in asyncio.run(story()):
        (call,) = found.choices[0].message.tool_calls
        assert (call.function.name, call.id) == ("get_weather", "call_1")
        assert "Paris" in call.function.arguments
        assert found.choices[0].finish_reason == "tool_calls"
