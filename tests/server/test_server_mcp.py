"""`/mcp`, spoken to by hand, and by the MCP library's own client over a real socket."""

import asyncio
from typing import Any

import orjson
import pytest

from author_servers import ask, error_of, nobody, turn
from palestra.errors import InfraError
from palestra.fleet.sockets import listen, serving
from palestra.schema import VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServer, ResourcesServerConfig, Session, tool
from palestra.server.mcp import MCP_PATH, MCP_SESSION_HEADER, TOKEN_HEADER
from palestra.transport import HttpReply


class Adding(ResourcesServer):
    """A total that lives in the session."""

    async def seed_session(self, body: dict[str, Any], session: Session) -> WireModel:
        session.state["total"] = body.get("start", 0)
        return WireModel()

    @tool
    async def add(self, amount: int, session: Session) -> str:
        """Add to the total.

        amount: How much to add.
        """
        session.state["total"] = session.state.get("total", 0) + amount
        return f"the total is {session.state['total']}"

    @tool
    async def unreachable(self) -> str:
        """Ask a server that is gone."""
        raise InfraError("nobody there")

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def exposed(**settings: Any) -> Adding:
    settings = {"expose_tools_over_mcp": True, **settings}
    config = ResourcesServerConfig(name="my env", **settings)
    return Adding(config=config, server_client=nobody())


def message(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    sent = {"jsonrpc": "2.0", "method": method, "params": params}
    return sent if number is None else {**sent, "id": number}


def add(amount: Any) -> dict[str, Any]:
    return message("tools/call", name="add", arguments={"amount": amount})


def said(reply: HttpReply) -> str:
    return str(orjson.loads(reply.body)["result"]["content"][0]["text"])


def test_an_environment_that_does_not_offer_mcp_has_no_such_path() -> None:
    reply = ask(exposed(expose_tools_over_mcp=False), MCP_PATH, message("tools/list"))

    assert reply.status == 404


def test_tools_are_listed_with_the_schemas_that_rows_would_have() -> None:
    server = exposed()

    (listed, _) = orjson.loads(ask(server, MCP_PATH, message("tools/list")).body)["result"]["tools"]

    entry = server.tools()["add"]
    assert listed["name"] == "add"
    assert listed["description"] == entry["description"] == "Add to the total."
    assert listed["inputSchema"] == entry["parameters"]


def test_a_call_in_the_session_of_the_cookie_is_one_in_the_rollouts_session() -> None:
    server = exposed()
    seeded = ask(server, "/seed_session", {"start": 5})

    over_mcp = ask(server, MCP_PATH, add(2), cookies=seeded.cookies)
    plain = ask(server, "/add", {"amount": 1}, cookies=seeded.cookies)

    assert said(over_mcp) == "the total is 7"
    assert plain.body == b"the total is 8"


def test_seeding_says_how_to_reach_the_session_without_cookies() -> None:
    server = exposed()

    way = orjson.loads(ask(server, "/seed_session", {"start": 5}).body)["mcp"]

    assert (way["server_name"], way["url_path"]) == ("my env", MCP_PATH)
    assert said(ask(server, way["url_path"], add(1), headers=way["headers"])) == "the total is 6"


def test_a_handshake_opens_a_session_that_its_header_names() -> None:
    server = exposed()
    hello = ask(server, MCP_PATH, message("initialize", protocolVersion="2025-06-18"))
    held = {MCP_SESSION_HEADER: hello.headers[MCP_SESSION_HEADER.lower()]}

    said_first = said(ask(server, MCP_PATH, add(1), headers=held))

    assert orjson.loads(hello.body)["result"]["protocolVersion"] == "2025-06-18"
    assert said_first == "the total is 1"
    assert said(ask(server, MCP_PATH, add(1), headers=held)) == "the total is 2"


def test_a_token_that_we_did_not_sign_opens_nothing() -> None:
    server = exposed()
    ask(server, MCP_PATH, add(1), session_id="victim")

    reply = ask(server, MCP_PATH, add(1), headers={TOKEN_HEADER: "victim.AAAA"})

    assert reply.status == 404
    assert "not of this server" in orjson.loads(reply.body)["error"]["message"]


def test_what_a_tool_makes_of_wrong_arguments_is_an_answer_that_says_so() -> None:
    result = orjson.loads(ask(exposed(), MCP_PATH, add("two")).body)["result"]

    assert result["isError"] is True
    assert "amount" in result["content"][0]["text"]


def test_a_tool_that_could_not_be_reached_is_a_failure_and_no_answer() -> None:
    reply = ask(exposed(), MCP_PATH, message("tools/call", name="unreachable"))

    assert reply.status >= 500
    assert error_of(reply)["message"] == "nobody there"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (message("resources/list"), 200, -32601),
        (message("server/discover"), 200, -32601),
        (message("tools/call", name="verify"), 200, -32602),
        (message("tools/call", name="subtract"), 200, -32602),
        (message("tools/call", name=3), 200, -32602),
    ],
)
def test_what_is_no_request_of_ours_is_refused_by_its_code(
    body: Any, status: int, code: int
) -> None:
    reply = ask(exposed(), MCP_PATH, body)

    assert (reply.status, orjson.loads(reply.body)["error"]["code"]) == (status, code)


def test_a_notification_gets_no_answer() -> None:
    reply = ask(exposed(), MCP_PATH, message("notifications/initialized", None))

    assert (reply.status, reply.body) == (202, b"")


def test_calls_recorded_under_mcp_names_are_verified_under_the_tools_own() -> None:
    row = turn()
    row["response"]["output"] = [
        {"type": "function_call", "name": name, "arguments": "{}", "call_id": name}
        for name in ("mcp__my_env__add", "mcp__other__add", "add")
    ]

    output = orjson.loads(ask(exposed(), "/verify", row).body)["response"]["output"]

    assert [item["name"] for item in output] == ["add", "mcp__other__add", "add"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_librarys_client_lists_and_calls_in_one_session(mode: str) -> None:
    mcp = pytest.importorskip("mcp")

    async def talk() -> list[str]:
        sock = listen("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}{MCP_PATH}"
        async with (
            asyncio.timeout(20),
            serving(exposed().asgi_app(), sock),
            mcp.Client(url, mode=mode) as client,
        ):
            names = [found.name for found in (await client.list_tools()).tools]
            first = await client.call_tool("add", {"amount": 2})
            second = await client.call_tool("add", {"amount": 3})
            wrong = await client.call_tool("add", {"amount": "x"})
            with pytest.raises(mcp.MCPError, match="no tool named fly"):
                await client.call_tool("fly", {})
            assert wrong.is_error
            return [*names, first.content[0].text, second.content[0].text]

    assert asyncio.run(talk()) == ["add", "unreachable", "the total is 2", "the total is 5"]
