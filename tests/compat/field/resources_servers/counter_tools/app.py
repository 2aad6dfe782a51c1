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


class CounterToolsResourcesServerConfig(BaseResourcesServerConfig):
    pass


class IncrementRequest(BaseModel):
    count: int


class IncrementResponse(BaseModel):
    success: bool


class GetResponse(BaseModel):
    count: int


class CounterSeedSessionRequest(BaseSeedSessionRequest):
    initial_count: int


class CounterVerifyRequest(BaseVerifyRequest):
    expected_count: int


class CounterToolsResourcesServer(SimpleResourcesServer):
    config: CounterToolsResourcesServerConfig
    session_id_to_counter: Dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/increment_counter")(self.increment_counter)
        app.post("/get_counter_value")(self.get_counter_value)
        return app

    async def seed_session(
        self, request: Request, body: CounterSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        self.session_id_to_counter[request.session[SESSION_ID_KEY]] = body.initial_count
        return BaseSeedSessionResponse()

    async def increment_counter(
        self, request: Request, body: IncrementRequest
    ) -> IncrementResponse:
        session_id = request.session[SESSION_ID_KEY]
        self.session_id_to_counter[session_id] += body.count
        return IncrementResponse(success=True)

    async def get_counter_value(self, request: Request) -> GetResponse:
        return GetResponse(count=self.session_id_to_counter.get(request.session[SESSION_ID_KEY], 0))

    async def verify(self, request: Request, body: CounterVerifyRequest) -> BaseVerifyResponse:
        count = self.session_id_to_counter.pop(request.session[SESSION_ID_KEY], None)
        return BaseVerifyResponse(
            **body.model_dump(), reward=float(count == body.expected_count)
        )


if __name__ == "__main__":
    CounterToolsResourcesServer.run_webserver()
