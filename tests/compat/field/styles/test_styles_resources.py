"""Resources servers in many styles, as they are found in the field."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, ClassVar, Dict, List, Literal, Optional, Union
from unittest.mock import AsyncMock, MagicMock, patch

import pytest
from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from nemo_gym import PARENT_DIR
from nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    NeMoGymResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.global_config import (
    ROLLOUT_INDEX_KEY_NAME,
    TASK_INDEX_KEY_NAME,
    get_first_server_config_dict,
    get_global_config_dict,
)
from nemo_gym.judge import JudgeError, call_judge
from nemo_gym.openai_utils import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseOutputItem,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputRefusal,
    NeMoGymResponseOutputText,
    NeMoGymResponseReasoningItem,
    NeMoGymSummary,
)
from nemo_gym.reward_profile import (
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from nemo_gym.server_utils import SESSION_ID_KEY, ServerClient


def config_of(cls=BaseResourcesServerConfig, **more):
    return cls(host="0.0.0.0", port=8080, entrypoint="", name="", **more)


def message(text: str, **more) -> NeMoGymResponseOutputMessage:
    return NeMoGymResponseOutputMessage(
        id="msg",
        content=[NeMoGymResponseOutputText(annotations=[], text=text, type="output_text")],
        role="assistant",
        status="completed",
        type="message",
        **more,
    )


def response(*items) -> NeMoGymResponse:
    return NeMoGymResponse(
        id="resp",
        created_at=0.0,
        model="dummy",
        object="response",
        output=list(items),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )


PARAMS = NeMoGymResponseCreateParamsNonStreaming(input=[{"role": "user", "content": "q"}])


# 1. nested metadata, private attributes made in model_post_init, sync helpers


class VerifierMetadata(BaseModel):
    model_config = ConfigDict(extra="allow")
    answer: Union[str, int, List[str]]


class MetaVerifyRequest(BaseVerifyRequest):
    verifier_metadata: Optional[VerifierMetadata] = None


class MetaServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    _cache: Dict[str, Any] = PrivateAttr(default_factory=dict)
    _sessions: Dict[str, Any] = PrivateAttr(default_factory=dict)
    _token: Any = None

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._semaphore = asyncio.Semaphore(2)
        self._cache["made"] = True

    async def verify(self, body: MetaVerifyRequest) -> BaseVerifyResponse:
        async with self._semaphore:
            good = body.verifier_metadata and body.response.output_text in str(
                body.verifier_metadata.answer
            )
        return BaseVerifyResponse(**body.model_dump(), reward=1.0 if good else 0.0)


async def test_private_attributes_and_metadata() -> None:
    server = MetaServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    assert server._cache == {"made": True}
    body = MetaVerifyRequest.model_validate(
        {
            "responses_create_params": PARAMS.model_dump(exclude_unset=True),
            "response": response(message("4")).model_dump(),
            "verifier_metadata": {"answer": 4, "else": 1},
            "not_declared": True,
        }
    )
    assert not hasattr(body, "not_declared")
    result = await server.verify(body)
    assert result.reward == 1.0
    assert set(result.model_dump()) == {"responses_create_params", "response", "reward"}


# 2. tool routes of any name, catch-all routing, names that a server of the host may have itself


class ToolsServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    state: Dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/start")(self.start)
        app.post("/stop")(self.stop)
        app.post("/{path}")(self.route)
        return app

    async def start(self, request: Request, count: int = Body(embed=True)) -> Dict[str, int]:
        self.state[request.session[SESSION_ID_KEY]] = count
        return {"count": count}

    async def stop(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(self.state.pop(request.session[SESSION_ID_KEY])))

    async def route(self, path: str, body: Dict[str, Any], request: Request) -> Dict[str, Any]:
        if path == "broken":
            raise HTTPException(status_code=400, detail="broken tool")
        return {"path": path, "keys": sorted(body)}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=0.5)


def test_catch_all_and_reserved_names() -> None:
    server = ToolsServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    with TestClient(server.setup_webserver()) as client:
        assert client.post("/start", json={"count": 7}).json() == {"count": 7}
        assert client.post("/stop").text == "7"
        assert client.post("/anything", json={"b": 1, "a": 2}).json() == {
            "path": "anything",
            "keys": ["a", "b"],
        }
        assert client.post("/broken", json={}).status_code == 400
        row = {"responses_create_params": {"input": "x"}, "response": response().model_dump()}
        assert client.post("/verify", json=row).json()["reward"] == 0.5


# 3. multiple inheritance, extra="allow", dict union, several rewards


class ExtraRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")
    task_id: int


class ExtraVerifyRequest(ExtraRunRequest, BaseVerifyRequest):
    pass


class ExtraVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")
    reward_components: Dict[str, float]


class ExtraServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: ExtraVerifyRequest) -> ExtraVerifyResponse:
        parts = {"format": 1.0, "correct": float(body.model_extra["target"] == "y")}
        return ExtraVerifyResponse.model_validate(
            body.model_dump() | {"reward": sum(parts.values()) / 2, "reward_components": parts}
        )


async def test_extras_flow_through() -> None:
    server = ExtraServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    body = ExtraVerifyRequest(
        responses_create_params=PARAMS, response=response(), task_id=3, target="y"
    )
    assert body.target == "y"
    result = await server.verify(body)
    assert (result.reward, result.target, result.task_id) == (1.0, "y", 3)
    client = TestClient(server.setup_webserver())
    got = client.post("/verify", json=json.loads(body.model_dump_json())).json()
    assert got["target"] == "y" and got["reward_components"] == {"format": 1.0, "correct": 1.0}


# 4. items of every kind


async def test_items_of_every_kind() -> None:
    made = response(
        NeMoGymResponseReasoningItem(
            id="rs", summary=[NeMoGymSummary(text="hm", type="summary_text")], type="reasoning"
        ),
        NeMoGymResponseFunctionToolCall(
            arguments="{}", call_id="c", name="f", type="function_call", id="c", status="completed"
        ),
        NeMoGymFunctionCallOutput(call_id="c", output="1", type="function_call_output"),
        NeMoGymResponseOutputMessage(
            id="m",
            content=[NeMoGymResponseOutputRefusal(refusal="no", type="refusal")],
            role="assistant",
            status="completed",
            type="message",
        ),
        NeMoGymEasyInputMessage(role="user", content="go on"),
        message("done"),
    )
    again = NeMoGymResponse.model_validate(made.model_dump())
    assert [type(item) for item in again.output] == [type(item) for item in made.output]
    assert again.output_text == "done"
    assert again == NeMoGymResponse.model_validate_json(made.model_dump_json())
    assert again.output[0].summary[0].text == "hm"
    assert again.output[4].content == "go on"
    assert not hasattr(again.output[1], "content")
    with pytest.raises(ValidationError):
        NeMoGymResponse.model_validate({"id": "x"})
    with pytest.raises(ValidationError):
        NeMoGymResponseOutputMessage(id="m", content="no list", role="assistant")


def test_params_are_dicts_below() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming(
        input=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hi", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "3"},
        ],
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        metadata={"a": "b"},
        max_output_tokens=10,
    )
    assert params.input[1].content[0]["text"] == "hello"
    assert params.input[2].content[0].text == "hi"
    assert params.tools[0]["name"] == "f"
    assert params.model_dump(exclude_unset=True)["tools"][0]["parameters"] == {"type": "object"}
    copied = params.model_copy(deep=True)
    copied.input.append(NeMoGymEasyInputMessage(role="user", content="more"))
    assert len(params.input) == 5
    dumped = copied.model_dump(mode="json")
    assert dumped["input"][0] == {"content": "s", "role": "system", "type": "message"}
    assert dumped["temperature"] is None and dumped["parallel_tool_calls"] is True
    assert NeMoGymResponseCreateParamsNonStreaming(**dumped) == copied
    with pytest.raises(ValidationError):
        NeMoGymResponseCreateParamsNonStreaming(input=[], metadata={"a": 1})
    assert json.loads(copied.model_dump_json()) == dumped


def test_isinstance_of_union() -> None:
    items: List[NeMoGymResponseOutputItem] = [message("x")]
    assert isinstance(items[0], NeMoGymResponseOutputMessage)


# 5. seed with a model, HTTPException, state by session, lifespan


class GameSeed(BaseSeedSessionRequest):
    seed: int = 0


class GameSeeded(BaseSeedSessionResponse):
    observation: str


class GameConfig(BaseResourcesServerConfig):
    board: int = 3
    mode: Literal["easy", "hard"] = "easy"
    weights: Dict[str, float] = Field(default_factory=lambda: {"a": 1.0})

    @field_validator("board")
    @classmethod
    def positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError("board must be positive")
        return value


class GameServer(SimpleResourcesServer):
    config: GameConfig
    started: List[str] = []

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        inner = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI):
            async with inner(app):
                self.started.append("up")
                yield
                self.started.append("down")

        app.router.lifespan_context = lifespan

        @app.post("/move")
        async def move(request: Request, direction: str = Body(..., embed=True)):
            boards = request.app.state.boards
            return {"at": boards[request.session[SESSION_ID_KEY]], "direction": direction}

        app.state.boards = {}
        self._app = app
        return app

    async def seed_session(self, body: GameSeed, request: Request) -> GameSeeded:
        request.app.state.boards[request.session[SESSION_ID_KEY]] = body.seed * self.config.board
        return GameSeeded(observation="board")

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        if request.session[SESSION_ID_KEY] not in request.app.state.boards:
            raise HTTPException(status_code=404, detail="Session not found")
        return BaseVerifyResponse(**body.model_dump(), reward=1)

    _app: Any = None


def test_game_with_lifespan() -> None:
    server = GameServer(
        config=config_of(GameConfig, board=2), server_client=MagicMock(spec=ServerClient)
    )
    row = {"responses_create_params": {"input": "x"}, "response": response().model_dump()}
    with TestClient(server.setup_webserver()) as client:
        assert client.post("/verify", json=row).status_code == 404
        seeded = client.post("/seed_session", json={**row, "seed": 4})
        assert seeded.json() == {"observation": "board"}
        assert client.post("/move", json={"direction": "up"}).json()["at"] == 8
        assert client.post("/verify", json=row).json()["reward"] == 1.0
        assert client.get("/openapi.json").status_code == 200
    assert server.started == ["up", "down"]
    with pytest.raises(ValidationError):
        config_of(GameConfig, board=0)


async def test_verify_called_directly_with_a_mock_request() -> None:
    server = GameServer(config=config_of(GameConfig), server_client=MagicMock(spec=ServerClient))
    request = MagicMock(spec=Request)
    request.session = {SESSION_ID_KEY: "s"}
    request.app.state.boards = {}
    assert (await server.seed_session(GameSeed(seed=1), request)).observation == "board"
    got = await server.verify(
        request, BaseVerifyRequest(responses_create_params=PARAMS, response=response())
    )
    assert got.reward == 1.0


# 6. judges


class JudgeServerConfig(BaseResourcesServerConfig):
    judge_model_server: ModelServerRef
    judge_responses_create_params: NeMoGymResponseCreateParamsNonStreaming


class JudgeServer(SimpleResourcesServer):
    config: JudgeServerConfig

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        params = self.config.judge_responses_create_params.model_copy(
            update={"input": [NeMoGymEasyInputMessage(role="user", content="grade")]}
        )
        judged = await call_judge(
            server_client=self.server_client,
            server_name=self.config.judge_model_server.name,
            responses_create_params=params,
        )
        if "YES" not in judged.output_text and "NO" not in judged.output_text:
            raise JudgeError("no verdict")
        return BaseVerifyResponse(**body.model_dump(), reward=float("YES" in judged.output_text))


def judge_server(said: str = "", **mocked) -> JudgeServer:
    server = JudgeServer(
        config=config_of(
            JudgeServerConfig,
            judge_model_server={"type": "responses_api_models", "name": "judge"},
            judge_responses_create_params={"input": []},
        ),
        server_client=MagicMock(spec=ServerClient),
    )
    reply = AsyncMock()
    reply.read.return_value = response(message(said)).model_dump_json().encode()
    reply.json.return_value = response(message(said)).model_dump()
    for name, value in mocked.items():
        setattr(reply, name, value)
    server.server_client.post = AsyncMock(return_value=reply)
    return server


BODY = BaseVerifyRequest(responses_create_params=PARAMS, response=response(message("a")))


async def test_judge() -> None:
    assert (await judge_server("YES").verify(BODY)).reward == 1.0
    assert (await judge_server("NO").verify(BODY)).reward == 0.0


async def test_judge_fails() -> None:
    with pytest.raises(JudgeError, match="no verdict"):
        await judge_server("perhaps").verify(BODY)
    with pytest.raises(JudgeError):
        await judge_server("YES", ok=False, status=500).verify(BODY)
    broken = judge_server("YES")
    broken.server_client.post = AsyncMock(side_effect=ConnectionError("down"))
    with pytest.raises(JudgeError, match="down"):
        await broken.verify(BODY)


# 7. metrics


ROWS = [
    {
        TASK_INDEX_KEY_NAME: task,
        ROLLOUT_INDEX_KEY_NAME: rollout,
        "reward": float(task == rollout),
        "extracted_answer": "ab"[rollout],
        "level": ["easy", "hard"][task],
        "response": {"usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
    }
    for task in range(2)
    for rollout in range(2)
]


class MetricsServer(MetaServer):
    @staticmethod
    def _score(result: Dict[str, Any]) -> Dict[str, Union[float, bool]]:
        return {"accuracy": result["reward"], "always": True}

    def compute_metrics(self, tasks: List[List[Dict[str, Any]]]) -> Dict[str, Any]:
        metrics, *_ = compute_pass_majority_metrics(
            tasks, score_fn=self._score, answer_key="extracted_answer"
        )
        metrics.update(
            compute_subset_metrics(
                tasks, subset_key="level", score_fn=self._score, answer_key="extracted_answer"
            )
        )
        return metrics

    def get_key_metrics(self, agent_metrics: Dict[str, Any]) -> Dict[str, Any]:
        key = {"mean/reward": agent_metrics["mean/reward"]}
        key.update(highest_k_metrics(agent_metrics, "pass@{k}", exclude_names=["no_answer"]))
        key.update(highest_k_metrics(agent_metrics, "majority@{k}", score_names=["accuracy"]))
        return key


async def test_metrics() -> None:
    server = MetricsServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    metrics = await server.aggregate_metrics(AggregateMetricsRequest(verify_responses=ROWS))
    assert isinstance(metrics, AggregateMetrics)
    assert metrics.agent_metrics["mean/reward"] == 0.5
    assert metrics.agent_metrics["pass@2/accuracy"] == 100.0
    assert metrics.agent_metrics["easy/pass@1[avg-of-2]/accuracy"] == 50.0
    assert metrics.agent_metrics["pass@1/no_answer"] == 0.0
    assert metrics.key_metrics == {
        "mean/reward": 0.5,
        "pass@2/accuracy": 100.0,
        "pass@2/always": 100.0,
        "majority@2/accuracy": 50.0,
    }
    client = TestClient(server.setup_webserver())
    got = client.post("/aggregate_metrics", json={"verify_responses": ROWS}).json()
    assert got["key_metrics"] == metrics.key_metrics
    assert server.compute_metrics([ROWS[:2], ROWS[2:]])["pass@1/accuracy"] == 50.0


class AggregateServer(MetaServer):
    async def aggregate_metrics(
        self, body: AggregateMetricsRequest = Body()
    ) -> AggregateMetrics:
        metrics = await super().aggregate_metrics(body)
        metrics.agent_metrics["count"] = len(body.verify_responses)
        return metrics


async def test_aggregate_override() -> None:
    server = AggregateServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    got = TestClient(server.setup_webserver()).post(
        "/aggregate_metrics", json={"verify_responses": ROWS}
    )
    assert got.json()["agent_metrics"]["count"] == 4
    without_ids = [{"reward": 1.0}, {"reward": 0.0}]
    metrics = await server.aggregate_metrics(AggregateMetricsRequest(verify_responses=without_ids))
    assert metrics.agent_metrics["mean/reward"] == 0.5


# 8. reverify modes


class StatelessConfig(BaseResourcesServerConfig):
    REVERIFY_MODE = ReverifyMode.STATELESS


class Stateless(MetaServer):
    config: StatelessConfig


class Unsupported(MetaServer):
    def get_reverify_mode(self) -> ReverifyMode:
        return ReverifyMode.UNSUPPORTED


@pytest.mark.parametrize(
    "cls, mode", [(MetaServer, "unknown"), (GameServer, "unknown"), (Stateless, "stateless"), (Unsupported, "unsupported")]
)
def test_reverify_mode(cls, mode) -> None:
    config = config_of(cls.model_fields["config"].annotation)
    server = cls(config=config, server_client=MagicMock(spec=ServerClient))
    got = TestClient(server.setup_webserver()).get("/reverify_mode").json()
    assert got == mode


# 9. configuration


def test_configuration() -> None:
    tree = {"x": {"resources_servers": {"y": {"host": "h", "port": 3, "z": [1]}}}}
    assert get_first_server_config_dict(tree, "x")["port"] == 3
    with patch(f"{__name__}.get_global_config_dict", return_value=tree):
        assert get_global_config_dict()["x"]["resources_servers"]["y"]["z"] == [1]
    assert (PARENT_DIR / "resources_servers" / "plain_match" / "app.py").exists()
    assert ResourcesServerRef(type="resources_servers", name="r").name == "r"
    with pytest.raises(ValidationError):
        ModelServerRef(type="resources_servers", name="r")


# 10. an enum in the request, subclass of a subclass, thread offloading, NaN-safe


class Mode(str, Enum):
    A = "a"
    B = "b"


class EnumRequest(BaseVerifyRequest):
    mode: Mode = Mode.A
    options: List[Dict[str, str]] = Field(default_factory=list)


class EnumResponse(EnumRequest, BaseVerifyResponse):
    details: Optional[Dict[str, Any]] = None


class EnumServer(MetaServer):
    @staticmethod
    def _work(text: str) -> float:
        return float(len(text))

    async def verify(self, body: EnumRequest) -> EnumResponse:
        loop = asyncio.get_running_loop()
        reward = await loop.run_in_executor(None, self._work, body.response.output_text)
        return EnumResponse(**body.model_dump(), reward=reward, details={"mode": body.mode})


async def test_enum() -> None:
    server = EnumServer(config=config_of(), server_client=MagicMock(spec=ServerClient))
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "x"}]},
        "response": response(message("abc")).model_dump(),
        "mode": "b",
        "options": [{"A": "1"}],
    }
    got = TestClient(server.setup_webserver()).post("/verify", json=row).json()
    assert got["reward"] == 3.0 and got["mode"] == "b" and got["details"] == {"mode": "b"}
