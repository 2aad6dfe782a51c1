from unittest.mock import MagicMock

from fastapi.testclient import TestClient

from nemo_gym.server_utils import ServerClient
from resources_servers.counter_tools.app import (
    CounterToolsResourcesServer,
    CounterToolsResourcesServerConfig,
)


def make_client() -> TestClient:
    server = CounterToolsResourcesServer(
        config=CounterToolsResourcesServerConfig(host="0.0.0.0", port=8080, entrypoint="", name="c"),
        server_client=MagicMock(spec=ServerClient),
    )
    app = server.setup_webserver()
    return TestClient(app)


RESPONSE = {
    "id": "r",
    "created_at": 0,
    "model": "m",
    "object": "response",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


class TestApp:
    def test_session_state(self) -> None:
        client = make_client()
        row = {"responses_create_params": {"input": []}, "initial_count": 3, "expected_count": 5}
        assert client.post("/seed_session", json=row).json() == {}
        assert client.post("/increment_counter", json={"count": 2}).json() == {"success": True}
        assert client.post("/get_counter_value", json={}).json() == {"count": 5}
        verified = client.post("/verify", json=row | {"response": RESPONSE})
        assert verified.status_code == 200
        assert verified.json()["reward"] == 1.0

    def test_sessions_are_apart(self) -> None:
        client = make_client()
        client.post("/seed_session", json={"initial_count": 3})
        cookies = dict(client.cookies)
        client.cookies.clear()
        assert client.post("/get_counter_value").json() == {"count": 0}
        client.cookies.clear()
        client.cookies.update(cookies)
        assert client.post("/get_counter_value").json() == {"count": 3}

    def test_bad_body_is_422(self) -> None:
        assert make_client().post("/increment_counter", json={"count": "many"}).status_code == 422
