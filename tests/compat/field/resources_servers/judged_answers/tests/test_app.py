import json
from unittest.mock import AsyncMock, MagicMock

from pytest import approx, fixture

from nemo_gym.config_types import ModelServerRef
from nemo_gym.openai_utils import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)
from nemo_gym.server_utils import ServerClient
from resources_servers.judged_answers.app import (
    JudgedAnswersResourcesServer,
    JudgedAnswersResourcesServerConfig,
    JudgedAnswersVerifyRequest,
)


def make_response(text: str) -> NeMoGymResponse:
    return NeMoGymResponse(
        id="resp",
        created_at=0.0,
        model="m",
        object="response",
        output=[
            NeMoGymResponseOutputMessage(
                id="msg",
                content=[NeMoGymResponseOutputText(annotations=[], text=text, type="output_text")],
                role="assistant",
                status="completed",
                type="message",
            )
        ],
        parallel_tool_calls=False,
        tool_choice="none",
        tools=[],
    )


class TestApp:
    @fixture
    def config(self) -> JudgedAnswersResourcesServerConfig:
        return JudgedAnswersResourcesServerConfig(
            host="0.0.0.0",
            port=8080,
            entrypoint="",
            name="",
            judge_model_server=ModelServerRef(type="responses_api_models", name="judge"),
            judge_responses_create_params=NeMoGymResponseCreateParamsNonStreaming(input=[]),
        )

    async def _verify(self, config, said: str, how: str):
        client = MagicMock(spec=ServerClient)
        server = JudgedAnswersResourcesServer(config=config, server_client=client)
        post_mock = MagicMock()
        answer = make_response(said)
        if how == "json":
            post_mock.json = AsyncMock(return_value=json.loads(answer.model_dump_json()))
        else:
            post_mock.read = AsyncMock(return_value=answer.model_dump_json())
        client.post = AsyncMock(return_value=post_mock)
        body = JudgedAnswersVerifyRequest(
            responses_create_params=NeMoGymResponseCreateParamsNonStreaming(
                input=[{"role": "user", "content": "2+2?"}]
            ),
            response=make_response("4"),
            question="2+2?",
            expected_answer="4",
            source="made up",
        )
        result = await server.verify(body)
        client.post.assert_awaited_once()
        assert client.post.await_args.kwargs["server_name"] == "judge"
        assert client.post.await_args.kwargs["json"].input[0].content.startswith("Q: 2+2?")
        assert result.source == "made up"
        return result

    async def test_equal(self, config) -> None:
        assert (await self._verify(config, "so [[A=B]]", "json")).reward == approx(1.0)

    async def test_not_equal(self, config) -> None:
        result = await self._verify(config, "no [[A!=B]]", "read")
        assert result.reward == approx(0.0)
        assert result.judge_evaluations[0].response.output_text == "no [[A!=B]]"
