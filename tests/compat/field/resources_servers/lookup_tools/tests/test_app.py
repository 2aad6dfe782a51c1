from unittest.mock import MagicMock

from fastapi.testclient import TestClient

from nemo_gym.base_resources_server import (
    NEMO_GYM_MCP_METADATA_KEY,
    NEMO_GYM_MCP_SESSION_TOKEN_HEADER,
    MCPServerMetadata,
)
from nemo_gym.mcp_auto_exposure import maybe_auto_expose
from nemo_gym.server_utils import ServerClient
from resources_servers.lookup_tools.app import (
    LookupToolsResourcesServer,
    LookupToolsResourcesServerConfig,
)

ROW = {
    "responses_create_params": {"input": [{"role": "user", "content": "How high?"}]},
    "expected_height": 2962,
}


def make_server(**settings) -> LookupToolsResourcesServer:
    return LookupToolsResourcesServer(
        config=LookupToolsResourcesServerConfig(
            host="0.0.0.0", port=8080, entrypoint="", name="lookup_tools", **settings
        ),
        server_client=MagicMock(spec=ServerClient),
    )


def response_with(*output) -> dict:
    return {
        "id": "r",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


class TestApp:
    def test_not_exposed_by_default(self) -> None:
        server = make_server()
        assert maybe_auto_expose(server, server.setup_webserver()) is None

    def test_tools_over_mcp(self) -> None:
        server = make_server(expose_tools_over_mcp=True)
        app = server.setup_webserver()
        tools = maybe_auto_expose(server, app)
        assert list(tools) == ["get_height"]
        assert tools["get_height"].input_schema["required"] == ["mountain"]

        client = TestClient(app)
        seeded = client.post("/seed_session", json=ROW)
        mcp = MCPServerMetadata.model_validate(seeded.json()[NEMO_GYM_MCP_METADATA_KEY])
        assert (mcp.server_name, mcp.url_path, mcp.transport) == ("lookup_tools", "/mcp", "http")
        assert NEMO_GYM_MCP_SESSION_TOKEN_HEADER in mcp.headers

        client.cookies.clear()
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "get_height", "arguments": {"mountain": "Zugspitze"}},
        }
        called = client.post(
            mcp.url_path,
            json=message,
            headers={**mcp.headers, "accept": "application/json, text/event-stream"},
        )
        assert called.status_code == 200
        assert called.json()["result"]["content"][0]["text"] == '{"height_m":2962}'

    def test_namespaced_names_are_scored_bare(self) -> None:
        server = make_server(expose_tools_over_mcp=True)
        app = server.setup_webserver()
        maybe_auto_expose(server, app)
        client = TestClient(app)
        client.post("/seed_session", json=ROW)
        client.post("/get_height", json={"mountain": "Zugspitze"})
        call = {
            "type": "function_call",
            "call_id": "c",
            "name": "mcp__lookup_tools__get_height",
            "arguments": '{"mountain": "Zugspitze"}',
        }
        message = {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": '{"height_m": 2962}', "annotations": []}],
        }
        verified = client.post("/verify", json=ROW | {"response": response_with(call, message)})
        assert verified.json()["reward"] == 1.0
        assert verified.json()["response"]["output"][0]["name"] == "mcp__lookup_tools__get_height"
