"""`/ng-rollout/<id>/…`: the rollout that a call is for, in the path of any server."""

from pathlib import Path
from typing import Any

import pytest
from hosted_apps import JUDGE, RESPONSE, run

from palestra.fleet import Fleet

ECHO = """
class Echo(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text=request.url.path)])
        return NeMoGymResponse(id="r", created_at=0, model="echo", output=[item])
"""
PLAIN = """
class Plain(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)
"""


@pytest.mark.parametrize("prefix", ["/ng-rollout/3-1-a2", "/ng-rollout/x.y/training-token-capture"])
def test_a_hosted_server_answers_below_the_prefix_as_without(tmp_path: Path, prefix: str) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("echo", f"{prefix}/v1/responses", json={"input": "x"})
        assert (await reply.json())["output"][0]["content"][0]["text"] == "/v1/responses"
        row = {"responses_create_params": {"input": "q"}, "response": RESPONSE}
        reply = await fleet.client.post("plain", f"{prefix}/verify", json=row)
        assert (await reply.json())["reward"] == 1.0
        reply = await fleet.client.get("plain", prefix)
        assert await reply.json() == {"status": "ok"}

    run(tmp_path, {"responses_api_models/echo": ECHO, "resources_servers/plain": PLAIN}, check)


@pytest.mark.parametrize(
    ("rollout", "row"),
    [
        ("3-1", {"task": 3, "rollout": 1, "attempt": 1}),
        ("3-1-a2", {"task": 3, "rollout": 1, "attempt": 3}),
    ],
)
def test_a_failure_below_the_prefix_names_the_rollout(
    tmp_path: Path, rollout: str, row: dict[str, Any]
) -> None:
    async def check(fleet: Fleet) -> None:
        path = f"/ng-rollout/{rollout}/v1/responses"
        reply = await fleet.client.post("judge", path, json={"input": "x"})
        told = (await reply.json())["error"]
        assert "the endpoint is gone" in told["message"]
        assert {name: told["row"][name] for name in row} == row

    run(tmp_path, {"responses_api_models/judge": JUDGE}, check)
