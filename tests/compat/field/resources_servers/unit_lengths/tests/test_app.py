from unittest.mock import MagicMock

from pytest import approx, mark

from nemo_gym.server_utils import ServerClient
from resources_servers.unit_lengths.app import (
    UnitLengthsResourcesServer,
    UnitLengthsResourcesServerConfig,
    UnitLengthsVerifyRequest,
)


class TestApp:
    @mark.parametrize("answer, reward", [("3000 m", 1.0), ("3 km", 1.0), ("3 m", 0.0), ("long", 0.0)])
    async def test_verify(self, answer: str, reward: float) -> None:
        server = UnitLengthsResourcesServer(
            config=UnitLengthsResourcesServerConfig(host="0.0.0.0", port=8080, entrypoint="", name=""),
            server_client=MagicMock(spec=ServerClient),
        )
        body = UnitLengthsVerifyRequest.model_validate(
            {
                "responses_create_params": {"input": [{"role": "user", "content": "3 km?"}]},
                "expected_length": "3 km",
                "response": {
                    "id": "r",
                    "created_at": 0,
                    "model": "m",
                    "object": "response",
                    "output": [
                        {
                            "id": "msg",
                            "type": "message",
                            "role": "assistant",
                            "status": "completed",
                            "content": [{"type": "output_text", "text": answer, "annotations": []}],
                        }
                    ],
                    "parallel_tool_calls": True,
                    "tool_choice": "auto",
                    "tools": [],
                },
            }
        )
        result = await server.verify(body)
        assert result.reward == approx(reward)
        assert result.expected_metres == approx(3000.0)
