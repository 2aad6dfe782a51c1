"""`responses_api_agents.simple_agent.app`: agents of the field that subclass the simple agent."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from bare_apps import server_of
from hosted_apps import HEAD, JUDGE
from hosted_apps import run as run_fleet

from palestra.compat import aliases
from palestra.errors import JudgeFailure
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse

SUBCLASS = """
from responses_api_agents.simple_agent.app import (
    SimpleAgent, SimpleAgentConfig, SimpleAgentRunRequest, SimpleAgentVerifyRequest,
    SimpleAgentVerifyResponse
)

class StockAgentConfig(SimpleAgentConfig):
    prefix: str = "You run a warehouse."

class StockAgent(SimpleAgent):
    config: StockAgentConfig

    async def responses(
        self, request: Request, response: Response, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        body = body.model_copy(update={"instructions": self.config.prefix})
        return await super().responses(request, response, body)

    async def run(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        result = await super().run(request, body)
        SimpleAgentVerifyRequest.model_validate(result.model_dump())
        return result.model_copy(update={"row_note": body.note})
"""
MODEL = """
class Clerk(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        outputs = [item.output for item in body.input if item.type == "function_call_output"]
        text = NeMoGymResponseOutputText(text=f"{body.instructions} {outputs}")
        item = NeMoGymResponseOutputMessage(content=[text])
        call = NeMoGymResponseFunctionToolCall(name="stock", arguments='{"of": "pear"}', call_id="c")
        output = [item] if outputs else [call]
        usage = NeMoGymResponseUsage(input_tokens=1, output_tokens=2, total_tokens=3)
        return NeMoGymResponse(id="r", created_at=0, model="m", output=output, usage=usage)
"""
WAREHOUSE = """
class Warehouse(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    sessions: set = set()

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/stock")(self.stock)
        return app

    async def stock(self, request: Request, body: dict = Body()):
        self.sessions.add(request.session[SESSION_ID_KEY])
        return body["of"]

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        is_known = request.session[SESSION_ID_KEY] in self.sessions
        return BaseVerifyResponse(**body.model_dump(), reward=float(is_known))
"""
FLEET = {
    "responses_api_agents/stock": SUBCLASS,
    "responses_api_models/clerk": MODEL,
    "resources_servers/warehouse": WAREHOUSE,
}
REFERENCES = {
    "resources_server": {"type": "resources_servers", "name": "warehouse"},
    "model_server": {"type": "responses_api_models", "name": "clerk"},
}
ROW = {"responses_create_params": {"input": "How many pears?"}, "note": "aisle 4"}


def result_of(root: Path, *, tool: str = "stock", **settings: Any) -> VerifyResponse:
    """The result of one rollout of `SUBCLASS` with a model that calls one tool."""
    results: list[VerifyResponse] = []
    model = MODEL.replace('name="stock"', f"name={tool!r}")
    apps = {**FLEET, "responses_api_models/clerk": model}

    async def check(fleet: Fleet) -> None:
        results.append(await fleet.client.peer("stock").call("/run", ROW, VerifyResponse))

    run_fleet(root, apps, check, {**REFERENCES, **settings})
    return results[0]


def test_a_subclass_overrides_responses_and_run(tmp_path: Path) -> None:
    result = result_of(tmp_path)

    assert result.reward == 1.0
    assert (result.model_extra or {})["row_note"] == "aisle 4"
    assert result.response.output_text == """You run a warehouse. ['"pear"']"""
    assert result.response.usage is not None
    assert result.response.usage.total_tokens == 6


def test_a_subclass_keeps_max_steps_and_skip_verification(tmp_path: Path) -> None:
    result = result_of(tmp_path, max_steps=1, skip_verification=True, skip_verification_reward=0.5)

    assert result.reward == 0.5
    assert [item.type for item in result.response.output] == ["function_call"]


@pytest.mark.parametrize("tool", ["verify", "seed_session", "a/../verify?x=1"])
def test_a_model_cannot_reach_the_verifier_by_calling_a_tool_of_its_name(
    tmp_path: Path, tool: str
) -> None:
    result = result_of(tmp_path, tool=tool)

    assert "there is no tool named" in result.response.output_text
    assert result.reward == 0.0


def test_a_tool_whose_judge_fails_ends_the_rollout(tmp_path: Path) -> None:
    asking = """await raise_for_status(await self.server_client.post("judge", "/v1/responses", json={"input": "x"}))"""
    environment = WAREHOUSE.replace('return body["of"]', asking)
    apps = {
        **FLEET,
        "resources_servers/warehouse": environment,
        "responses_api_models/judge": JUDGE,
    }

    async def check(fleet: Fleet) -> None:
        with pytest.raises(JudgeFailure, match="the endpoint is gone"):
            await fleet.client.peer("stock").call("/run", ROW, VerifyResponse)

    run_fleet(tmp_path, apps, check, REFERENCES)


def test_a_subclass_can_be_made_without_a_fleet(tmp_path: Path) -> None:
    aliases.install()
    names: dict[str, Any] = {"__name__": "stock"}
    exec(HEAD + SUBCLASS, names)  # as the field's tests import it

    agent = server_of(names["StockAgent"], **REFERENCES)

    assert agent.config.max_steps is None
    assert "/run" in {getattr(route, "path", "") for route in agent.setup_webserver().routes}


def test_the_simple_agent_of_a_fleet_stays_our_own() -> None:
    aliases.install()
    field = importlib.import_module("responses_api_agents.simple_agent.app")
    ours = importlib.import_module("palestra.responses_api_agents.simple_agent.app")

    assert field.SimpleAgent is not ours.SimpleAgent
