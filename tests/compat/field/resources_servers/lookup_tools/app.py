import json
from typing import Dict

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY

HEIGHTS = {"Zugspitze": 2962, "Brocken": 1141}


class LookupToolsResourcesServerConfig(BaseResourcesServerConfig):
    pass


class GetHeightRequest(BaseModel):
    mountain: str = Field(description="The name of the mountain.")


class GetHeightResponse(BaseModel):
    height_m: int


class LookupToolsVerifyRequest(BaseVerifyRequest):
    expected_height: int


class LookupToolsVerifyResponse(BaseVerifyResponse):
    expected_height: int
    num_lookups: int


class LookupToolsResourcesServer(SimpleResourcesServer):
    config: LookupToolsResourcesServerConfig
    session_id_to_lookups: Dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/get_height")(self.get_height)
        return app

    async def seed_session(
        self, request: Request, body: BaseSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        self.session_id_to_lookups[request.session[SESSION_ID_KEY]] = 0
        return BaseSeedSessionResponse()

    async def get_height(self, request: Request, body: GetHeightRequest) -> GetHeightResponse:
        """Get the height of a mountain in metres."""
        self.session_id_to_lookups[request.session[SESSION_ID_KEY]] += 1
        return GetHeightResponse(height_m=HEIGHTS[body.mountain])

    async def verify(
        self, request: Request, body: LookupToolsVerifyRequest
    ) -> LookupToolsVerifyResponse:
        lookups = self.session_id_to_lookups.pop(request.session[SESSION_ID_KEY], 0)
        calls = [o for o in body.response.output if o.type == "function_call"]
        try:
            answer = json.loads(body.response.output_text)
        except ValueError:
            answer = None
        right = answer == {"height_m": body.expected_height}
        reward = float(right and lookups == 1 and [c.name for c in calls] == ["get_height"])
        return LookupToolsVerifyResponse(**body.model_dump(), reward=reward, num_lookups=lookups)


if __name__ == "__main__":
    LookupToolsResourcesServer.run_webserver()
