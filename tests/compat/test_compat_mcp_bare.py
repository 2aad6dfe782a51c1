"""`nemo_gym.mcp_auto_exposure` and the MCP names of `nemo_gym.base_resources_server`, on an app
without a fleet.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from bare_apps import RESPONSE, called, client_of, server_of
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field

from palestra.compat.nemo_gym.base_resources_server import (
    NEMO_GYM_MCP_METADATA_KEY,
    NEMO_GYM_MCP_SESSION_TOKEN_HEADER,
    RESERVED_MCP_TOOL_NAMES,
    BaseResourcesServerConfig,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    MCPServerMetadata,
    SimpleResourcesServer,
    normalize_tool_name,
)
from palestra.compat.nemo_gym.mcp_auto_exposure import Catchall, MCPTool, maybe_auto_expose
from palestra.compat.nemo_gym.server_utils import SESSION_ID_KEY


class City(BaseModel):
    city: str


class Told(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class Weather(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    asked: dict[str, list[str]] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/get_weather")(self.get_weather)
        app.post("/forget")(self.forget)
        app.post("/raw")(self.raw)
        app.post("/city/{name}")(self.forget)
        app.get("/towns")(self.forget)
        return app

    async def seed_session(self, request: Request) -> BaseSeedSessionResponse:
        self.asked[request.session[SESSION_ID_KEY]] = []
        return BaseSeedSessionResponse()

    async def get_weather(self, body: City, request: Request) -> dict[str, Any]:
        """Get the weather."""
        cities = self.asked[request.session[SESSION_ID_KEY]]
        cities.append(body.city)
        return {"cities": cities}

    async def forget(self) -> None:
        raise RuntimeError("cannot forget")

    async def raw(self, request: Request) -> None: ...

    async def verify(self, request: Request, body: BaseVerifyRequest) -> Told:
        names = [item.name for item in body.response.output]
        return Told(**body.model_dump(), reward=1.0, names=names)


def exposed(cls: Any = Weather, **settings: Any) -> tuple[TestClient, dict[str, MCPTool]]:
    server = server_of(cls, name="weather", expose_tools_over_mcp=True, **settings)
    app = server.setup_webserver()
    tools = maybe_auto_expose(server, app)
    assert tools is not None
    return client_of(app), tools


def asked(
    client: TestClient,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    headers: dict[str, str] | None = None,
    path: str = "/mcp",
) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    answer = client.post(path, json=message, headers=headers)
    assert answer.headers["content-type"] == "application/json"
    result: dict[str, Any] = answer.json()["result"]
    return result


def seeded(client: TestClient) -> dict[str, str]:
    """The headers of a new session."""
    client.cookies.clear()
    mcp = client.post("/seed_session", json={}).json()[NEMO_GYM_MCP_METADATA_KEY]
    return MCPServerMetadata.model_validate(mcp).headers


def test_maybe_auto_expose_does_nothing_without_the_setting() -> None:
    server = server_of(Weather)
    app = server.setup_webserver()

    assert maybe_auto_expose(server, app) is None
    assert client_of(app).post("/mcp", json={}).status_code == 404


def test_typed_unparameterized_post_routes_become_tools() -> None:
    client, tools = exposed()

    assert set(tools) == {"get_weather", "forget"}
    weather, _ = asked(client, "tools/list")["tools"]
    assert (weather["name"], weather["description"]) == ("get_weather", "Get the weather.")
    assert weather["inputSchema"]["required"] == ["city"]
    assert asked(client, "tools/list", path="/mcp/below")["tools"]


def test_seed_session_answers_the_metadata_of_the_tools() -> None:
    client, _ = exposed()

    metadata = client.post("/seed_session", json={}).json()["mcp"]

    token = metadata["headers"].pop(NEMO_GYM_MCP_SESSION_TOKEN_HEADER)
    assert token
    assert metadata == {
        "server_name": "weather",
        "url_path": "/mcp",
        "transport": "http",
        "headers": {},
    }


def test_a_tool_call_runs_in_the_session_of_its_token() -> None:
    client, _ = exposed()
    first, second = seeded(client), seeded(client)
    client.cookies.clear()

    def call(city: str, headers: dict[str, str]) -> dict[str, Any]:
        params = {"name": "get_weather", "arguments": {"city": city}}
        return asked(client, "tools/call", params, headers=headers)

    call("Paris", first)
    answer = call("Rome", first)
    assert answer == {
        "content": [{"type": "text", "text": '{"cities":["Paris","Rome"]}'}],
        "isError": False,
    }
    assert "Paris" not in call("Oslo", second)["content"][0]["text"]


@pytest.mark.parametrize("token", [None, "forged"])
def test_a_tool_call_without_a_valid_token_is_an_error_result(token: str | None) -> None:
    client, _ = exposed()
    client.post("/seed_session", json={})  # the cookie of this session is not enough
    headers = {NEMO_GYM_MCP_SESSION_TOKEN_HEADER: token} if token else None

    call = {"name": "get_weather", "arguments": {"city": "Rome"}}
    answer = asked(client, "tools/call", call, headers=headers)

    assert answer["isError"]
    assert NEMO_GYM_MCP_SESSION_TOKEN_HEADER in answer["content"][0]["text"]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ({"name": "get_wether", "arguments": {}}, "get_weather"),
        ({"name": "get_weather", "arguments": {}}, "city"),
        ({"name": "forget", "arguments": {}}, "cannot forget"),
    ],
)
def test_an_unknown_tool_bad_arguments_and_an_exception_are_error_results(
    call: dict[str, Any], word: str
) -> None:
    client, _ = exposed()

    answer = asked(client, "tools/call", call, headers=seeded(client))

    assert answer["isError"]
    assert word in answer["content"][0]["text"]


def test_verify_scores_bare_names_and_answers_the_recorded_ones() -> None:
    client, _ = exposed()
    output = [called("mcp__weather__get_weather"), called("mcp__other__x"), called("forget")]
    row = {
        "responses_create_params": {"input": "q"},
        "response": {**RESPONSE, "output": output},
    }

    answer = client.post("/verify", json=row).json()

    assert answer["names"] == ["get_weather", "mcp__other__x", "forget"]
    recorded = [item["name"] for item in answer["response"]["output"]]
    assert recorded == [item["name"] for item in output]


class Choosing(Weather):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/{tool}")(self.any)
        return app

    async def any(self, tool: str, request: Request) -> str:
        return f"{tool} of {request.session[SESSION_ID_KEY] in self.asked}"

    def mcp_tools(
        self, harvested: list[MCPTool], catchall: Catchall | None
    ) -> Sequence[MCPTool] | None:
        assert catchall is not None
        schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        return [*harvested[:1], catchall.tool("send", schema, "Send a mail.")]

    def mcp_allowed_tools_for_session(self, seed_body: dict[str, Any]) -> list[str] | None:
        return seed_body.get("allowed")


def test_mcp_tools_chooses_the_tools_and_makes_those_of_a_catch_all_route() -> None:
    client, tools = exposed(Choosing)

    assert list(tools) == ["get_weather", "send"]
    send = asked(client, "tools/list")["tools"][1]
    assert (send["description"], list(send["inputSchema"]["properties"])) == (
        "Send a mail.",
        ["to"],
    )
    answer = asked(client, "tools/call", {"name": "send"}, headers=seeded(client))
    assert answer["content"][0]["text"] == '"send of True"'


def test_mcp_allowed_tools_for_session_limits_what_its_token_may_call() -> None:
    client, _ = exposed(Choosing)
    headers = client.post("/seed_session", json={"allowed": ["send"]}).json()["mcp"]["headers"]

    listed = asked(client, "tools/list", headers=headers)["tools"]
    refused = asked(
        client, "tools/call", {"name": "get_weather", "arguments": {"city": "x"}}, headers=headers
    )
    answer = asked(client, "tools/call", {"name": "send"}, headers=headers)

    assert [tool["name"] for tool in listed] == ["send"]
    assert refused["isError"]
    assert "send" in refused["content"][0]["text"]
    assert not answer["isError"]


async def dependency() -> int:
    return 1


async def taken(body: City) -> None: ...


async def depending(body: City, number: int = Depends(dependency)) -> None: ...


async def with_two_bodies(body: City, more: City) -> None: ...


@pytest.mark.parametrize(
    ("paths", "handler"),
    [
        (["/mcp"], taken),
        (["/get_weather"], taken),
        (["/two words"], taken),
        (["/deep/er"], taken),
        (["/depending"], depending),
        (["/two_bodies"], with_two_bodies),
    ],
)
def test_tools_that_cannot_be_offered_are_value_errors_at_the_start(
    paths: list[str], handler: Any
) -> None:
    server = server_of(Weather, name="weather", expose_tools_over_mcp=True)
    app = server.setup_webserver()
    for path in paths:
        app.post(path)(handler)

    with pytest.raises(ValueError, match=paths[0].strip("/")):
        maybe_auto_expose(server, app)


class Reserving(Choosing):
    def mcp_tools(self, harvested: list[MCPTool], catchall: Catchall | None) -> list[MCPTool]:
        assert catchall is not None
        return [catchall.tool("verify", {}, "")]


def test_a_reserved_tool_name_and_a_second_exposure_are_value_errors() -> None:
    names = {"verify", "seed_session", "aggregate_metrics", "mcp"}
    assert names == RESERVED_MCP_TOOL_NAMES
    with pytest.raises(ValueError, match="verify"):
        exposed(Reserving)
    server = server_of(Weather, expose_tools_over_mcp=True)
    app = server.setup_webserver()
    maybe_auto_expose(server, app)
    with pytest.raises(ValueError, match="/mcp"):
        maybe_auto_expose(server, app)


def test_normalize_tool_name_strips_the_names_of_one_server_or_of_all() -> None:
    server = server_of(Weather, name="my weather")

    assert server.normalize_tool_name("mcp__my_weather__get") == "get"
    assert server.normalize_tool_name("mcp__other__get") == "mcp__other__get"
    assert normalize_tool_name("mcp__other__get", "other") == "get"
    assert normalize_tool_name("mcp__other__get") == "get"
    assert normalize_tool_name("get") == "get"
