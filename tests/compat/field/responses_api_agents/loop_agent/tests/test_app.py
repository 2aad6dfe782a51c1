import json
from unittest.mock import AsyncMock, MagicMock, call

from fastapi.testclient import TestClient

from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.server_utils import ServerClient
from responses_api_agents.loop_agent.app import LoopAgent, LoopAgentConfig


def answer(output):
    return {
        "id": "resp",
        "created_at": 1.0,
        "model": "m",
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


MESSAGE = {
    "id": "msg",
    "content": [{"annotations": [], "text": "hello", "type": "output_text"}],
    "role": "assistant",
    "status": "completed",
    "type": "message",
}
CALL = {"arguments": '{"a": 1}', "call_id": "c1", "name": "tool", "type": "function_call"}


class TestApp:
    def _server(self, **config) -> LoopAgent:
        return LoopAgent(
            config=LoopAgentConfig(
                host="0.0.0.0",
                port=8080,
                entrypoint="",
                name="agent",
                resources_server=ResourcesServerRef(type="resources_servers", name="res"),
                model_server=ModelServerRef(type="responses_api_models", name="policy"),
                **config,
            ),
            server_client=MagicMock(spec=ServerClient),
        )

    def test_sanity(self) -> None:
        self._server()

    async def test_responses(self) -> None:
        server = self._server()
        client = TestClient(server.setup_webserver())
        reply = AsyncMock()
        reply.read = AsyncMock(
            side_effect=[json.dumps(answer([CALL])).encode(), json.dumps(answer([MESSAGE])).encode()]
        )
        reply.cookies = {}
        reply.content.read.return_value = b'{"x": 2}'
        server.server_client.post = AsyncMock(return_value=reply)
        got = client.post("/v1/responses", json={"input": [{"role": "user", "content": "hi"}]})
        assert got.status_code == 200
        assert [o["type"] for o in got.json()["output"]] == [
            "function_call",
            "function_call_output",
            "message",
        ]
        assert got.json()["output"][1]["output"] == '{"x": 2}'
        assert server.server_client.post.await_args_list[1] == call(
            server_name="res", url_path="/tool", json={"a": 1}, cookies={}
        )

    async def test_max_steps(self) -> None:
        server = self._server(max_steps=1)
        client = TestClient(server.setup_webserver())
        reply = AsyncMock()
        reply.json.return_value = answer([CALL])
        reply.read.return_value = json.dumps(answer([CALL]))
        reply.content.read.return_value = b"{}"
        reply.cookies = MagicMock()
        server.server_client.post.return_value = reply
        got = client.post("/v1/responses", json={"input": "hi"})
        assert len(got.json()["output"]) == 2
