from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.openai_utils import (
    NeMoGymResponse,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)
from nemo_gym.server_utils import ServerClient
from resources_servers.guess_number.app import GuessNumberConfig, GuessNumberEnv


def make_env(**settings) -> GuessNumberEnv:
    return GuessNumberEnv(
        config=GuessNumberConfig(host="0.0.0.0", port=8080, entrypoint="", name="guess", **settings),
        server_client=MagicMock(spec=ServerClient),
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
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )


class TestGuessNumberEnv:
    @pytest.mark.asyncio
    async def test_reset(self) -> None:
        env = make_env()
        observation, info = await env.reset({"number": 3}, "s")
        assert observation == "What is your guess?"
        assert info == {"tries": 0}
        assert env.session_state["s"] == 0

    @pytest.mark.asyncio
    @pytest.mark.parametrize(
        "guess, expected",
        [
            ("3", (None, 1.0, True, False, {"tries": 1})),
            ("1", ("Higher.", -0.25, False, False, {"tries": 1})),
            ("9", ("Lower.", -0.25, False, False, {"tries": 1})),
            ("a cat", (None, 0.0, True, False, {"tries": 1})),
        ],
    )
    async def test_step(self, guess, expected) -> None:
        env = make_env()
        await env.reset({"number": 3}, "s")
        assert await env.step(make_response(guess), {"number": 3}, "s") == expected

    def test_episode_over_http(self) -> None:
        client = TestClient(make_env(max_tries=2).setup_webserver())
        row = {
            "responses_create_params": {"input": [{"role": "user", "content": "guess"}]},
            "verifier_metadata": {"number": 3},
        }
        assert client.post("/reset", json=row).json()["observation"] == "What is your guess?"
        first = client.post(
            "/step", json=row | {"response": make_response("1").model_dump(mode="json")}
        )
        assert first.json()["observation"] == "Higher."
        last = client.post(
            "/step", json=row | {"response": make_response("2").model_dump(mode="json")}
        )
        assert last.json()["truncated"] is True
        verified = client.post(
            "/verify", json=row | {"response": make_response("2").model_dump(mode="json")}
        )
        assert verified.json()["reward"] == -0.5
