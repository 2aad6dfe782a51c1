"""Agents, model servers and clients in many styles, as they are found in the field."""

import asyncio
import json
from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any, Dict, List, Optional
from unittest.mock import AsyncMock, MagicMock, patch

import pytest
import pytest_asyncio
from aiohttp import ClientResponseError
from fastapi import HTTPException, Request, Response
from fastapi.testclient import TestClient
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseResponsesAPIAgentConfig,
    Body,
    SimpleResponsesAPIAgent,
)
from nemo_gym.base_responses_api_model import (
    BaseResponsesAPIModelConfig,
    SimpleResponsesAPIModel,
)
from nemo_gym.config_types import BaseServerConfig, ModelServerRef, ResourcesServerRef
from nemo_gym.global_config import SKILLS_REF_KEY_NAME, get_global_config_dict
from nemo_gym.openai_utils import (
    NeMoGymAsyncOpenAI,
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymChatCompletionMessage,
    NeMoGymChoice,
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputMessageForTraining,
    NeMoGymResponseOutputText,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseReasoningItem,
    NeMoGymResponseUsage,
    accumulate_response_usage,
)
from nemo_gym.prompt import PromptConfig, load_prompt_config
from nemo_gym.responses_converter import ResponsesConverter
from nemo_gym.rollout_collection import NG_FAILURE_CLASS_KEY, NG_NO_PERSIST_KEY
from nemo_gym.rollout_observability import (
    AgentEpisode,
    AgentInvocation,
    AgentObservationBundle,
    ContextCompactionObservation,
    ModelCallRef,
    ObservationGap,
    ToolCallObservation,
)
from nemo_gym.sandbox import AsyncSandbox, SandboxResources, SandboxSpec, resolve_provider_config
from nemo_gym.server_utils import (
    ServerClient,
    get_first_server_config_dict,
    get_response_json,
    get_server_url,
    is_nemo_gym_fastapi_entrypoint,
    raise_for_status,
    request,
)


def usage(read: int, wrote: int) -> NeMoGymResponseUsage:
    return NeMoGymResponseUsage(
        input_tokens=read,
        input_tokens_details=NeMoGymResponseInputTokensDetails(cached_tokens=1),
        output_tokens=wrote,
        output_tokens_details=NeMoGymResponseOutputTokensDetails(reasoning_tokens=1),
        total_tokens=read + wrote,
    )


RESPONSE: Dict[str, Any] = {
    "id": "r",
    "created_at": 1.0,
    "model": "m",
    "object": "response",
    "output": [
        {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": usage(3, 2).model_dump(),
}


# 1. an agent that keeps a harness in a thread and builds verify from parts


class HarnessConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    concurrency: int = 4
    system_prompt: Optional[str] = None
    extra_args: Dict[str, Any] = Field(default_factory=dict)


class HarnessRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")


class HarnessVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")
    turns: int = 0


class HarnessAgent(SimpleResponsesAPIAgent):
    config: HarnessConfig
    sem: Any = None
    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_post_init(self, __context: Any) -> None:
        self.sem = asyncio.Semaphore(self.config.concurrency)

    async def responses(
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        raise NotImplementedError

    async def run(self, request: Request, body: HarnessRunRequest = Body()) -> HarnessVerifyResponse:
        async with self.sem:
            row = body.model_dump()
            seed = await self.server_client.post(
                server_name=self.config.resources_server.name,
                url_path="/seed_session",
                json=row,
                cookies=request.cookies,
            )
            await raise_for_status(seed)
            answer = await self.server_client.post(
                server_name=self.config.model_server.name,
                url_path="/v1/responses",
                json=body.responses_create_params.model_dump(exclude_unset=True),
                cookies={name: morsel.value for name, morsel in seed.cookies.items()},
            )
            await raise_for_status(answer)
            response = NeMoGymResponse.model_validate(await get_response_json(answer))
            verified = await self.server_client.post(
                server_name=self.config.resources_server.name,
                url_path="/verify",
                json={**row, "response": response.model_dump(mode="json")},
                cookies=seed.cookies,
            )
            await raise_for_status(verified)
            return HarnessVerifyResponse(**(await verified.json()), turns=1)


def harness(**config) -> HarnessAgent:
    return HarnessAgent(
        config=HarnessConfig(
            host="",
            port=0,
            entrypoint="",
            name="harness",
            resources_server=ResourcesServerRef(type="resources_servers", name="res"),
            model_server=ModelServerRef(type="responses_api_models", name="policy"),
            **config,
        ),
        server_client=MagicMock(spec=ServerClient),
    )


def reply(value: Any, **more) -> AsyncMock:
    made = AsyncMock()
    made.json.return_value = value
    made.read.return_value = json.dumps(value).encode()
    made.cookies = SimpleCookie({"a": "b"})
    made.ok = True
    made.status = 200
    for name, held in more.items():
        setattr(made, name, held)
    return made


async def test_harness_run() -> None:
    agent = harness(system_prompt="be brief", unknown_setting=3)
    row = {"responses_create_params": {"input": "q"}, "extra": 1}
    verified = {**row, "response": RESPONSE, "reward": 1.0}
    agent.server_client.post.side_effect = [reply({}), reply(RESPONSE), reply(verified)]
    request = SimpleNamespace(cookies={})
    result = await agent.run(request, HarnessRunRequest.model_validate(row))
    assert (result.reward, result.extra, result.turns) == (1.0, 1, 1)
    sent = agent.server_client.post.await_args_list
    assert sent[1].kwargs["json"] == {"input": "q"}
    assert sent[1].kwargs["cookies"] == {"a": "b"}
    assert sent[2].kwargs["json"]["response"]["output"][0]["content"][0]["text"] == "hi"


async def test_harness_error() -> None:
    agent = harness()
    failing = reply({"detail": "x"}, ok=False, status=500)
    failing.raise_for_status = MagicMock(
        side_effect=ClientResponseError(MagicMock(), (), status=500, message="bad")
    )
    failing.content.read.return_value = b'{"detail": "x"}'
    agent.server_client.post.return_value = failing
    with pytest.raises(ClientResponseError) as error:
        await agent.run(
            SimpleNamespace(cookies={}),
            HarnessRunRequest.model_validate({"responses_create_params": {"input": "q"}}),
        )
    assert error.value.response_content == b'{"detail": "x"}'


async def test_agent_aggregate_is_the_environments() -> None:
    agent = harness()
    agent.server_client.post.return_value = reply({"agent_metrics": {"mean/reward": 0.5}})
    metrics = await agent.aggregate_metrics(AggregateMetricsRequest(verify_responses=[]))
    assert metrics.agent_metrics == {"mean/reward": 0.5}
    assert agent.server_client.post.await_args.kwargs["server_name"] == "res"


# 2. an agent without environment or `run` of the usual kind


class LonelyConfig(BaseResponsesAPIAgentConfig):
    model_server: ModelServerRef


class LonelyAgent(SimpleResponsesAPIAgent):
    config: LonelyConfig

    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        return NeMoGymResponse.model_validate(RESPONSE)

    async def run(self, body: BaseRunRequest = Body()) -> BaseVerifyResponse:
        response = await self.responses(body.responses_create_params)
        return BaseVerifyResponse(
            responses_create_params=body.responses_create_params, response=response, reward=0.25
        )


def test_lonely_agent() -> None:
    agent = LonelyAgent(
        config=LonelyConfig(
            host="0.0.0.0",
            port=1,
            entrypoint="",
            name="",
            model_server={"type": "responses_api_models", "name": "m"},
        ),
        server_client=MagicMock(spec=ServerClient),
    )
    client = TestClient(agent.setup_webserver())
    got = client.post("/run", json={"responses_create_params": {"input": "x"}}).json()
    assert got["reward"] == 0.25
    rows = [{"reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0}]
    got = client.post("/aggregate_metrics", json={"verify_responses": rows}).json()
    assert got["key_metrics"]["mean/reward"] == 1.0
    assert client.post("/run", json={}).status_code == 422


# 3. model servers


class ProxyConfig(BaseResponsesAPIModelConfig):
    openai_base_url: str
    openai_api_key: str
    openai_model: str


class ProxyModel(SimpleResponsesAPIModel):
    config: ProxyConfig

    def model_post_init(self, context):
        self._client = NeMoGymAsyncOpenAI(
            base_url=self.config.openai_base_url, api_key=self.config.openai_api_key
        )
        return super().model_post_init(context)

    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        asked = body.model_dump(exclude_unset=True)
        asked.setdefault("model", self.config.openai_model)
        return NeMoGymResponse.model_validate(await self._client.create_response(**asked))

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        asked = body.model_dump(exclude_unset=True)
        asked["model"] = self.config.openai_model
        return NeMoGymChatCompletion.model_validate(
            await self._client.create_chat_completion(**asked)
        )


CHAT = {
    "id": "chat",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "<think>hm</think>well",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
        }
    ],
    "created": 1,
    "model": "m",
    "object": "chat.completion",
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


def proxy() -> ProxyModel:
    return ProxyModel(
        config=ProxyConfig(
            host="0.0.0.0",
            port=8081,
            openai_base_url="https://x/v1",
            openai_api_key="dummy",
            openai_model="gpt",
            entrypoint="",
            name="",
        ),
        server_client=MagicMock(spec=ServerClient),
    )


async def test_proxy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    server = proxy()
    client = TestClient(server.setup_webserver())
    server._client = MagicMock(spec=NeMoGymAsyncOpenAI)
    server._client.create_response = AsyncMock(return_value=RESPONSE)
    server._client.create_chat_completion = AsyncMock(return_value=CHAT)
    got = client.post("/v1/responses", json={"input": "hello"})
    assert got.status_code == 200
    expected = NeMoGymResponse.model_validate(RESPONSE).model_dump()
    assert got.json() == json.loads(json.dumps(expected))
    server._client.create_response.assert_awaited_once_with(input="hello", model="gpt")
    got = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
    assert got.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"
    anthropic = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    assert client.post("/v1/messages", json=anthropic).json()["content"][0]["text"] == "hi"


def test_chat_types() -> None:
    completion = NeMoGymChatCompletion.model_validate(CHAT)
    assert completion.choices[0].message.tool_calls[0].function.arguments == "{}"
    assert completion.usage.total_tokens == 3
    choice = NeMoGymChoice(
        finish_reason="stop",
        index=0,
        message=NeMoGymChatCompletionMessage(role="assistant", content="x", tool_calls=[]),
    )
    assert choice.message.content == "x"
    params = NeMoGymChatCompletionCreateParamsNonStreaming(
        messages=[{"role": "user", "content": "x"}], model="m", max_tokens=3, top_k=4
    )
    assert params.messages[0]["role"] == "user"
    assert params.model_dump(exclude_unset=True) == {
        "messages": [{"role": "user", "content": "x"}],
        "model": "m",
        "max_tokens": 3,
        "top_k": 4,
    }


# 4. converter


def test_converter() -> None:
    converter = ResponsesConverter(return_token_id_information=True)
    params = NeMoGymResponseCreateParamsNonStreaming(
        input=[
            NeMoGymEasyInputMessage(role="user", content="hi"),
            NeMoGymResponseFunctionToolCall(arguments="{}", call_id="c", name="f"),
            NeMoGymFunctionCallOutput(call_id="c", output="3"),
        ],
        max_output_tokens=5,
        tools=[{"type": "function", "name": "f", "parameters": {}, "strict": True}],
    )
    chat = converter.responses_to_chat_completion_create_params(params)
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool"]
    assert chat.max_tokens == 5
    assert chat.tools[0]["function"]["name"] == "f"
    items = converter.postprocess_chat_response(NeMoGymChatCompletion.model_validate(CHAT).choices[0])
    assert [item.type for item in items] == ["reasoning", "message", "function_call"]
    trained = json.loads(json.dumps(CHAT["choices"][0]))
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    trained["message"] |= tokens
    trained["message"].pop("tool_calls")
    items = converter.postprocess_chat_response(NeMoGymChoice.model_validate(trained))
    assert isinstance(items[-1], NeMoGymResponseOutputMessageForTraining)
    assert items[-1].generation_log_probs == [-0.5]
    back = converter.chat_completions_messages_to_responses_items(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    )
    assert [item.role for item in back] == ["system", "user"]


# 5. usage


def test_usage() -> None:
    total = None
    for turn in (usage(1, 2), None, usage(3, 4)):
        total = accumulate_response_usage(total, turn)
    assert total.total_tokens == 10
    assert total.input_tokens_details.cached_tokens == 2


# 6. the client


async def test_client_by_hand() -> None:
    tree = OmegaConf.create(
        {"res": {"resources_servers": {"x": {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}}}}
    )
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=11000), global_config_dict=tree
    )
    assert isinstance(client.global_config_dict, DictConfig)
    assert get_first_server_config_dict(client.global_config_dict, "res").port == 1
    with patch("nemo_gym.server_utils.get_global_config_dict", return_value=tree):
        assert get_server_url("res") == "http://127.0.0.1:1"
    assert isinstance(ServerClient.load_from_global_config(), ServerClient)
    assert not is_nemo_gym_fastapi_entrypoint(__file__)


async def test_mocked_client_has_nothing_else() -> None:
    client = MagicMock(spec=ServerClient)
    client.post.return_value = reply({"a": 1})
    assert await get_response_json(await client.post("x", "/y")) == {"a": 1}
    with pytest.raises(AttributeError):
        client.no_such_method()


async def test_mocked_json_only() -> None:
    only_json = MagicMock()
    only_json.json = AsyncMock(return_value={"a": 1})
    assert await get_response_json(only_json) == {"a": 1}
    await raise_for_status(only_json)


# 7. observability, prompts, sandbox, keys


def test_observability() -> None:
    call = ModelCallRef(model_call_id="1")
    bundle = AgentObservationBundle(
        source="harness",
        records=[
            AgentInvocation(invocation_id="main", model_calls=[call]),
            ToolCallObservation(invocation_id="main", tool_name="bash", status="completed"),
            ContextCompactionObservation(tokens_before=3, tokens_after=1, before_model_call=call),
        ],
        gaps=[ObservationGap(code="no_timing", detail="not seen")],
    )
    again = AgentObservationBundle.model_validate(bundle.model_dump(mode="json"))
    assert again == bundle
    assert again.records[1].tool_name == "bash"
    assert bundle.gaps[0].code == "no_timing"
    assert AgentEpisode(response="r", observations=bundle).observations.records[0].kind == "agent_invocation"


def test_prompt(tmp_path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("system: You judge.\nuser: 'Q: {question}'\n")
    prompt = load_prompt_config(str(file))
    assert isinstance(prompt, PromptConfig)
    assert prompt.user.format(question="x") == "Q: x"
    assert prompt.system == "You judge."


async def test_sandbox(tmp_path) -> None:
    spec = SandboxSpec(image="python:3.12", resources=SandboxResources(cpu=1), env={"A": "b"})
    async with AsyncSandbox(resolve_provider_config({"process": {}}), spec) as sandbox:
        result = await sandbox.exec("echo $A; exit 3")
        assert (result.stdout, result.return_code) == ("b\n", 3)


def test_keys() -> None:
    assert NG_FAILURE_CLASS_KEY == "_ng_failure_class"
    assert NG_NO_PERSIST_KEY == "_ng_no_persist"
    assert SKILLS_REF_KEY_NAME == "skills_ref"
    from nemo_gym.global_config import HEAD_SERVER_KEY_NAME

    assert HEAD_SERVER_KEY_NAME == "head_server"
    assert "policy" not in get_global_config_dict()


# 8. fixtures


@pytest_asyncio.fixture
async def made() -> Any:
    loop = asyncio.get_running_loop()
    yield loop
    assert asyncio.get_running_loop() is loop


@pytest.fixture
async def none() -> None:
    await asyncio.sleep(0)


class TestFixtures:
    @pytest.fixture
    async def mine(self, made) -> int:
        return 3

    async def test_same_loop(self, made, mine, none) -> None:
        assert asyncio.get_running_loop() is made
        assert mine == 3 and none is None

    @pytest.mark.asyncio
    async def test_marked(self) -> None:
        await asyncio.sleep(0)

    def test_sync_beside(self) -> None:
        asyncio.run(asyncio.sleep(0))


# 9. an aiohttp-like request


async def test_request() -> None:
    from aiohttp import web

    async def hello(asked):
        return web.json_response({"got": await asked.json()}, status=201)

    app = web.Application()
    app.router.add_post("/x", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        got = await request("POST", f"http://127.0.0.1:{port}/x", json={"a": BaseServerConfig(port=3)})
        assert got.status == 201
        assert (await got.json())["got"] == {"a": {"port": 3}}
        with pytest.raises(ClientResponseError):
            await raise_for_status(await request("GET", f"http://127.0.0.1:{port}/none"))
    finally:
        await runner.cleanup()
