from unittest.mock import MagicMock

from fastapi.testclient import TestClient

from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from responses_api_models.script_model.app import ScriptModel, ScriptModelConfig


def make_client() -> TestClient:
    server = ScriptModel(
        config=ScriptModelConfig(host="0.0.0.0", port=8080, entrypoint="", name="policy_model"),
        server_client=MagicMock(spec=ServerClient, global_config_dict={}),
    )
    return TestClient(server.setup_webserver())


def ask(content: str, *more) -> dict:
    params = NeMoGymResponseCreateParamsNonStreaming(
        input=[{"role": "user", "content": content}, *more]
    )
    answer = make_client().post("/v1/responses", json=params.model_dump(exclude_unset=True))
    assert answer.status_code == 200
    return answer.json()


class TestApp:
    def test_says_the_first_line(self) -> None:
        got = ask("say Paris\nsay Rome")
        assert got["output"][0]["content"][0]["text"] == "Paris"
        assert got["usage"]["total_tokens"] == 5

    def test_says_the_next_line_in_the_next_turn(self) -> None:
        turn = {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Paris", "annotations": []}],
        }
        got = ask("say Paris\nsay Rome", turn, {"role": "user", "content": "And?"})
        assert got["output"][0]["content"][0]["text"] == "Rome"

    def test_calls_a_tool(self) -> None:
        [call] = ask('call add {"a": 1}\nsay done')["output"]
        assert (call["type"], call["name"], call["arguments"]) == ("function_call", "add", '{"a": 1}')

    def test_unknown_parameter_is_422(self) -> None:
        got = make_client().post("/v1/responses", json={"input": "say x", "seed": 1})
        assert got.status_code == 422

    def test_chat_completions(self) -> None:
        got = make_client().post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": "hello"}]}
        )
        assert got.json()["choices"][0]["message"]["content"] == "hello"

    def test_stream(self) -> None:
        got = make_client().post("/v1/responses", json={"input": "say Paris", "stream": True})
        assert got.headers["content-type"].startswith("text/event-stream")
        assert "response.completed" in got.text
