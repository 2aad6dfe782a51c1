"""The same environment and the same agent, written against Palestra and against `nemo_gym`.

All four do the work of `example_single_tool_call` and `simple_agent`: two model calls, one tool
call, a reward of 1.0.
"""

import textwrap
from pathlib import Path

NATIVE_ENVIRONMENT = """
    from palestra.schema import VerifyRequest, VerifyResponse
    from palestra.server import ResourcesServer, tool


    class NativeWeather(ResourcesServer):
        @tool
        async def get_weather(self, city: str) -> dict[str, str]:
            return {"city": city, "weather_description": f"The weather in {city} is cold."}

        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            return self.reply(body, 1.0)
"""

ALIAS_ENVIRONMENT = """
    from fastapi import FastAPI
    from pydantic import BaseModel

    from nemo_gym.base_resources_server import (
        BaseResourcesServerConfig,
        BaseVerifyRequest,
        BaseVerifyResponse,
        SimpleResourcesServer,
    )


    class WeatherRequest(BaseModel):
        city: str


    class WeatherResponse(BaseModel):
        city: str
        weather_description: str


    class AliasWeather(SimpleResourcesServer):
        config: BaseResourcesServerConfig

        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            app.post("/get_weather")(self.get_weather)
            return app

        async def get_weather(self, body: WeatherRequest) -> WeatherResponse:
            told = f"The weather in {body.city} is cold."
            return WeatherResponse(city=body.city, weather_description=told)

        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            return BaseVerifyResponse(**body.model_dump(), reward=1.0)
"""

NATIVE_AGENT = """
    import orjson

    from palestra.schema import FunctionCall, FunctionCallOutput, Response, ResponseCreateParams
    from palestra.server import BoundAgent
    from palestra.transport import Peer


    class NativeLoop(BoundAgent):
        async def respond(
            self, params: ResponseCreateParams, *, environment: Peer, model: Peer
        ) -> Response:
            items = []
            while True:
                asked = params.model_copy(update={"input": [*params.input, *items]})
                turn = await model.call("/v1/responses", asked, Response)
                items.extend(turn.output)
                calls = [item for item in turn.output if isinstance(item, FunctionCall)]
                if not calls:
                    return turn.model_copy(update={"output": items})
                for call in calls:
                    told = await environment.call_tool(call.name, orjson.loads(call.arguments))
                    items.append(FunctionCallOutput(call_id=call.call_id, output=told))
"""

ALIAS_AGENT = """
    import json

    from fastapi import Request
    from pydantic import ConfigDict

    from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyResponse
    from nemo_gym.base_responses_api_agent import (
        BaseResponsesAPIAgentConfig,
        Body,
        SimpleResponsesAPIAgent,
    )
    from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
    from nemo_gym.openai_utils import (
        NeMoGymFunctionCallOutput,
        NeMoGymResponse,
        NeMoGymResponseCreateParamsNonStreaming,
    )
    from nemo_gym.server_utils import get_response_json, raise_for_status


    class LoopConfig(BaseResponsesAPIAgentConfig):
        resources_server: ResourcesServerRef
        model_server: ModelServerRef


    class LoopRunRequest(BaseRunRequest):
        model_config = ConfigDict(extra="allow")


    class LoopVerifyResponse(BaseVerifyResponse):
        model_config = ConfigDict(extra="allow")


    class AliasLoop(SimpleResponsesAPIAgent):
        config: LoopConfig

        async def responses(
            self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
        ) -> NeMoGymResponse:
            items = []
            while True:
                answer = await self.server_client.post(
                    server_name=self.config.model_server.name,
                    url_path="/v1/responses",
                    json=body.model_copy(update={"input": body.input + items}),
                )
                await raise_for_status(answer)
                turn = NeMoGymResponse.model_validate(await get_response_json(answer))
                items.extend(turn.output)
                calls = [item for item in turn.output if item.type == "function_call"]
                if not calls:
                    turn.output = items
                    return turn
                for call in calls:
                    told = await self.server_client.post(
                        server_name=self.config.resources_server.name,
                        url_path=f"/{call.name}",
                        json=json.loads(call.arguments),
                        cookies=request.cookies,
                    )
                    items.append(
                        NeMoGymFunctionCallOutput(
                            type="function_call_output",
                            call_id=call.call_id,
                            output=(await told.content.read()).decode(),
                        )
                    )

        async def run(self, request: Request, body: LoopRunRequest) -> LoopVerifyResponse:
            seeded = await self.server_client.post(
                server_name=self.config.resources_server.name,
                url_path="/seed_session",
                json=body.model_dump(),
                cookies=request.cookies,
            )
            await raise_for_status(seeded)
            answered = await self.server_client.post(
                server_name=self.config.name,
                url_path="/v1/responses",
                json=body.responses_create_params,
                cookies=seeded.cookies,
            )
            await raise_for_status(answered)
            verified = await self.server_client.post(
                server_name=self.config.resources_server.name,
                url_path="/verify",
                json=body.model_dump() | {"response": await get_response_json(answered)},
                cookies=answered.cookies,
            )
            await raise_for_status(verified)
            return LoopVerifyResponse.model_validate(await get_response_json(verified))
"""

ENVIRONMENTS = {"native_weather": NATIVE_ENVIRONMENT, "alias_weather": ALIAS_ENVIRONMENT}
AGENTS = {"native_loop": NATIVE_AGENT, "alias_loop": ALIAS_AGENT}


def write(folder: Path) -> None:
    """Write all four below the project folder `folder`."""
    for tree, servers in (("resources_servers", ENVIRONMENTS), ("responses_api_agents", AGENTS)):
        for name, text in servers.items():
            app = folder / tree / name / "app.py"
            app.parent.mkdir(parents=True, exist_ok=True)
            app.write_text(textwrap.dedent(text), encoding="utf-8")


def settings() -> dict[str, object]:
    """Return the configuration: one instance of each environment, and an agent for each pair."""
    tree: dict[str, object] = {
        name: {"resources_servers": {name: {"entrypoint": "app.py", "domain": "other"}}}
        for name in ENVIRONMENTS
    }
    for agent in AGENTS:
        for environment in ENVIRONMENTS:
            references = {
                "resources_server": {"type": "resources_servers", "name": environment},
                "model_server": {"type": "responses_api_models", "name": "policy_model"},
            }
            block = {agent: {"entrypoint": "app.py", **references}}
            tree[f"{agent}_{environment}"] = {"responses_api_agents": block}
    return tree
