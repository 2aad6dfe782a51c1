"""Routes of environments of the field as tools at `/mcp`."""

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

from palestra.config import load_config
from palestra.schema import WireModel
from palestra.serving import Fleet
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
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)
'''


async def asked(peer: Peer, method: str, **params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await peer.call("/mcp", message, WireModel)
    assert answer.model_extra is not None
    return dict(answer.model_extra["result"])


def test_fixed_post_routes_are_tools_in_the_rollouts_session(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "counter"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(dedent(COUNTER))
    settings = {"entrypoint": "app.py", "expose_tools_over_mcp": True}
    tree = {"counter": {"resources_servers": {"counter": settings}}}

    async def check() -> None:
        config = load_config(extra=tree, cwd=tmp_path, use_env_yaml=False)
        async with asyncio.timeout(20), Fleet(config) as fleet:
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

    asyncio.run(check())
