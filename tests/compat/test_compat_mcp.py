"""Routes of environments of the field as tools at `/mcp`."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from textwrap import dedent
from typing import Any

from palestra.config import load_config
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse, WireModel
from palestra.transport import Peer

COUNTER = '''
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel
from nemo_gym.base_resources_server import *
from nemo_gym.server_utils import SESSION_ID_KEY


class Amount(BaseModel):
    amount: int


class Counter(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    totals: dict = {}

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        app.post("/refuse")(self.refuse)
        app.post("/{anything}")(self.refuse)
        return app

    async def seed_session(self, request: Request) -> BaseSeedSessionResponse:
        self.totals[request.session[SESSION_ID_KEY]] = 5
        return BaseSeedSessionResponse()

    async def add(self, body: Amount, request: Request) -> int:
        """Add to the total."""
        self.totals[request.session[SESSION_ID_KEY]] += body.amount
        return self.totals[request.session[SESSION_ID_KEY]]

    async def refuse(self) -> None:
        raise HTTPException(403, "not you")

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        called = [item.name for item in body.response.output]
        return BaseVerifyResponse(**body.model_dump(), reward=float(called == ["add", "other"]))
'''


async def asked(peer: Peer, method: str, **params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await peer.call("/mcp", message, WireModel)
    assert answer.model_extra is not None
    return dict(answer.model_extra["result"])


def with_counter(
    root: Path, check: Callable[[Fleet], Coroutine[Any, Any, None]], *, exposed: bool = True
) -> None:
    folder = root / "resources_servers" / "counter"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(dedent(COUNTER))
    settings = {"entrypoint": "app.py", "expose_tools_over_mcp": exposed}
    tree = {"counter": {"resources_servers": {"counter": settings}}}

    async def serve() -> None:
        config = load_config(extra=tree, cwd=root, use_env_yaml=False)
        async with asyncio.timeout(20), Fleet(config) as fleet:
            await check(fleet)

    asyncio.run(serve())


def test_fixed_post_routes_are_tools_in_the_rollouts_session(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("counter")
        await peer.notify("/seed_session", {})
        add, refuse = (await asked(peer, "tools/list"))["tools"]
        assert (add["name"], add["description"]) == ("add", "Add to the total.")
        assert add["inputSchema"]["required"] == ["amount"]
        assert refuse["name"] == "refuse"
        called = await asked(peer, "tools/call", name="add", arguments={"amount": 2})
        assert called == {"content": [{"type": "text", "text": "7"}], "isError": False}
        wrong = await asked(peer, "tools/call", name="add", arguments={})
        assert wrong["isError"]
        assert "amount" in wrong["content"][0]["text"]
        refused = await asked(peer, "tools/call", name="refuse")
        assert refused["isError"]
        assert "not you" in refused["content"][0]["text"]

    with_counter(tmp_path, check)


def test_seeding_answers_how_to_reach_the_tools_in_its_session(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        seeded = await (await fleet.client.post("counter", "/seed_session", json={})).json()
        told = seeded["mcp"]
        assert (told["server_name"], told["transport"]) == ("counter", "http")
        call = {"name": "add", "arguments": {"amount": 2}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        reply = await fleet.client.post(
            "counter", told["url_path"], json=message, headers=told["headers"]
        )
        assert (await reply.json())["result"]["content"][0]["text"] == "7"

    with_counter(tmp_path, check)


def test_an_environment_that_offers_nothing_over_mcp_says_nothing_of_it(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("counter", "/seed_session", json={})
        assert await reply.json() == {}

    with_counter(tmp_path, check, exposed=False)


def test_calls_that_an_mcp_client_recorded_have_their_own_names_at_verify(tmp_path: Path) -> None:
    def called(name: str) -> dict[str, str]:
        return {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}

    async def check(fleet: Fleet) -> None:
        output = [called("mcp__counter__add"), called("other")]
        response = {"id": "r", "created_at": 0, "model": "m", "output": output}
        row = {"responses_create_params": {"input": "q"}, "response": response}
        found = await fleet.client.peer("counter").call("/verify", row, VerifyResponse)
        assert found.reward == 1.0

    with_counter(tmp_path, check)
