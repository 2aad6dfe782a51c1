from unittest.mock import MagicMock

import pytest

from nemo_gym.base_resources_server import AggregateMetricsRequest
from nemo_gym.openai_utils import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)
from nemo_gym.server_utils import ServerClient
from resources_servers.plain_match.app import (
    PlainMatchResourcesServer,
    PlainMatchResourcesServerConfig,
    PlainMatchVerifyRequest,
)


class TestApp:
    def _server(self) -> PlainMatchResourcesServer:
        config = PlainMatchResourcesServerConfig(host="0.0.0.0", port=8080, entrypoint="", name="")
        return PlainMatchResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))

    def _request(self, text: str) -> PlainMatchVerifyRequest:
        response = NeMoGymResponse(
            id="resp_1",
            created_at=0.0,
            model="dummy",
            object="response",
            output=[
                NeMoGymResponseOutputMessage(
                    id="msg_1",
                    content=[
                        NeMoGymResponseOutputText(annotations=[], text=text, type="output_text")
                    ],
                    role="assistant",
                    status="completed",
                    type="message",
                )
            ],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        return PlainMatchVerifyRequest(
            responses_create_params=NeMoGymResponseCreateParamsNonStreaming(input="Capital?"),
            response=response,
            expected_answer="Paris",
        )

    def test_sanity(self) -> None:
        self._server()

    @pytest.mark.parametrize("text, reward", [("paris", 1.0), ("Rome", 0.0), ("", 0.0)])
    async def test_verify(self, text: str, reward: float) -> None:
        result = await self._server().verify(self._request(text))
        assert result.reward == reward
        assert result.expected_answer == "Paris"
        assert result.response.output_text == text

    @pytest.mark.asyncio
    async def test_aggregate_metrics(self) -> None:
        rows = [
            {"_ng_task_index": t, "_ng_rollout_index": r, "reward": float(t), "extracted_answer": "x"}
            for t in range(2)
            for r in range(2)
        ]
        metrics = await self._server().aggregate_metrics(
            AggregateMetricsRequest(verify_responses=rows)
        )
        assert metrics.agent_metrics["pass@1[avg-of-2]/accuracy"] == 50.0
        assert metrics.key_metrics == {"pass@1[avg-of-2]/accuracy": 50.0}
        assert len(metrics.group_level_metrics) == 2
