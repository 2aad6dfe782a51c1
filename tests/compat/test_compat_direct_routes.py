"""The short path to authors' routes: what callers get is what the app would have answered."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hosted_apps import ROW, run

from palestra.errors import CallError, RowError, VerifierError
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse
from palestra.transport import call_asgi

TOOLS = """
class Ask(BaseModel):
    number: int

class Tools(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    calls: dict = {}

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/double")(self.double)
        app.post("/refuse")(self.refuse)
        app.post("/crash")(self.crash)
        app.post("/stamp")(self.stamp)
        app.post("/count")(self.count)
        app.post("/slow_path/{name}")(self.named)
        ADDED
        return app

    def double(self, body: Ask) -> Ask:
        return Ask(number=2 * body.number)

    async def refuse(self, body: Ask) -> Ask:
        raise HTTPException(418, "no tea")

    async def crash(self, body: Ask) -> Ask:
        raise KeyError("gone")

    async def stamp(self, body: Ask, response: Response) -> Ask:
        response.status_code = 202
        response.headers["x-stamp"] = str(body.number)
        response.set_cookie("stamp", "yes")
        return body

    async def count(self, request: Request) -> dict:
        request.session["calls"] = request.session.get("calls", 0) + 1
        return {"calls": request.session["calls"], "app": request.app.title}

    async def named(self, name: str) -> dict:
        return {"name": name}

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raw = await request.json()
        return BaseVerifyResponse(**body.model_dump(), reward=float(raw["wanted"]))
"""
SEEN = """
@app.middleware("http")
        async def see(request, call_next):
            answer = await call_next(request)
            answer.headers["x-seen"] = "yes"
            return answer
"""


def tools(added: str = "") -> dict[str, str]:
    head = "from fastapi import Response\nfrom pydantic import BaseModel\n"
    return {"resources_servers/tools": head + TOOLS.replace("ADDED", added.strip())}


def check_with(tmp_path: Path, check: Any, added: str = "") -> None:
    run(tmp_path, tools(added), check)


@pytest.mark.parametrize("added", ["", SEEN], ids=["short", "through the app"])
def test_a_tool_answers_the_same_text_on_both_paths(tmp_path: Path, added: str) -> None:
    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("tools")
        assert await peer.call_tool("double", {"number": 4}) == '{"number":8}'
        assert "no tea" in await peer.call_tool("refuse", {"number": 4})
        assert "KeyError" in await peer.call_tool("crash", {"number": 4})
        assert "number" in await peer.call_tool("double", {"number": "four"})
        assert await peer.call_tool("slow_path/x", {}) == '{"name":"x"}'

    check_with(tmp_path, check, added)


@pytest.mark.parametrize("added", ["", SEEN], ids=["short", "through the app"])
def test_a_verification_answers_the_same_on_both_paths(tmp_path: Path, added: str) -> None:
    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("tools")
        verified = await peer.call("/verify", {**ROW, "wanted": 0.5}, VerifyResponse)
        assert verified.reward == 0.5
        with pytest.raises(RowError) as rejected:
            await peer.call("/verify", {"wanted": 1}, VerifyResponse)
        assert {problem.pointer for problem in rejected.value.evidence.problems} >= {"/response"}
        with pytest.raises(VerifierError) as failed:
            await peer.call("/verify", ROW, VerifyResponse)
        assert "KeyError" in failed.value.message

    check_with(tmp_path, check, added)


@pytest.mark.slow
def test_a_failed_verification_of_a_server_in_its_own_process_is_answered(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        async with asyncio.timeout(20):
            reply = await fleet.client.post("tools", "/verify", json=ROW)
        assert reply.status == 500
        assert (await reply.json())["error"]["type"] == "verifier_error"

    run(tmp_path, tools(), check, top_level={"default_placement": "process"})


def test_middleware_of_an_author_sees_every_request(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("tools", "/double", json={"number": 1})
        assert reply.headers["x-seen"] == "yes"

    check_with(tmp_path, check, SEEN)


def test_status_headers_and_cookies_that_a_function_sets_are_sent(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("tools", "/stamp", json={"number": 7})
        assert (reply.status, reply.headers["x-stamp"]) == (202, "7")
        assert reply.cookies["stamp"] == "yes"
        assert await reply.json() == {"number": 7}

    check_with(tmp_path, check)


def test_what_is_stored_in_a_session_is_there_at_the_next_call(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        peer, other = fleet.client.peer("tools"), fleet.client.peer("tools")
        for calls in (1, 2, 3):
            assert f'"calls":{calls}' in await peer.call_tool("count", {})
        assert '"calls":1' in await other.call_tool("count", {})

    check_with(tmp_path, check)


def test_a_body_of_another_content_type_is_for_the_app(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        server = fleet.client.targets["tools"].local
        assert server is not None
        reply = await call_asgi(
            server.asgi_app(),
            "POST",
            "/double",
            body=b'{"number": 1}',
            headers={"content-type": "text/plain"},
        )
        assert reply.status == 422

    check_with(tmp_path, check)


AGENT = """
class Walker(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        raise NotImplementedError

    async def run(self, request: Request, body: BaseRunRequest = Body()) -> dict:
        cookies, told = request.cookies, []
        for path, sent in (("/count", {}), ("/count", {}), ("/double", {"number": 3}),
                           ("/double", {"number": "x"}), ("/refuse", {"number": 1}),
                           ("/crash", {"number": 1}), ("/stamp", {"number": 2})):
            reply = await self.server_client.post("tools", path, json=sent, cookies=cookies)
            cookies = reply.cookies
            told.append((reply.status, await reply.json()))
        with_query = await self.server_client.post("tools", "/count", json={}, cookies=cookies,
                                                   params={"x": "1"})
        told.append((with_query.status, await with_query.json()))
        return {"told": told, "reward": 1.0, "response": {}}
"""


def test_an_agents_client_gets_what_http_would_carry(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        body = {"responses_create_params": {"input": "q"}}
        reply = await fleet.client.post("walker", "/run", json=body)
        told = (await reply.json())["told"]
        statuses = [status for status, _ in told]
        assert statuses == [200, 200, 200, 422, 418, 500, 202, 200]
        assert [told[place][1]["calls"] for place in (0, 1, 7)] == [1, 2, 3]
        assert told[2][1] == {"number": 6}
        assert "no tea" in str(told[4][1])
        assert "KeyError" in told[5][1]["error"]

    run(tmp_path, {**tools(), "responses_api_agents/walker": AGENT}, check)


def test_a_request_to_the_agent_itself_carries_the_cookies_of_other_servers(tmp_path: Path) -> None:
    source = """
    class Looper(SimpleResponsesAPIAgent):
        config: BaseResponsesAPIAgentConfig

        async def responses(self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> dict:
            reply = await self.server_client.post("tools", "/count", json={}, cookies=request.cookies)
            return await reply.json()

        async def run(self, request: Request, body: BaseRunRequest = Body()) -> dict:
            first = await self.server_client.post("tools", "/count", json={}, cookies=request.cookies)
            second = await self.server_client.post(
                self.config.name, "/v1/responses", json={"input": "q"}, cookies=first.cookies)
            third = await self.server_client.post("tools", "/count", json={}, cookies=second.cookies)
            return {"counts": [(await reply.json())["calls"] for reply in (first, second, third)]}
    """

    async def check(fleet: Fleet) -> None:
        body = {"responses_create_params": {"input": "q"}}
        reply = await fleet.client.post("looper", "/run", json=body)
        assert (await reply.json())["counts"] == [1, 2, 3]

    run(tmp_path, {**tools(), "responses_api_agents/looper": source}, check)


def test_a_failure_behind_the_short_path_names_every_hop(tmp_path: Path) -> None:
    source = """
    class Asking(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            reply = await self.server_client.post("tools", "/crash", json={"number": 1})
            await raise_for_status(reply)
    """

    async def check(fleet: Fleet) -> None:
        with pytest.raises(CallError) as failed:
            await fleet.client.peer("asking").call("/verify", ROW, VerifyResponse)
        assert [hop.server for hop in failed.value.evidence.hops] == ["asking", "tools"]

    run(tmp_path, {**tools(), "resources_servers/asking": source}, check)
