"""`nemo_gym.base_responses_api_agent`: what runs the loop of one rollout."""

import asyncio
from abc import abstractmethod
from typing import ClassVar

from fastapi import Body, FastAPI, Request, Response

from palestra.compat.http import response_json
from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from palestra.compat.nemo_gym.config_types import BaseRunServerInstanceConfig
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.servers import BaseServer, SimpleServer
from palestra.schema import JsonDict


class BaseResponsesAPIAgentConfig(BaseRunServerInstanceConfig):
    """Settings of an agent; add your own as fields of a subclass."""


class BaseResponsesAPIAgent(BaseServer):
    """An agent's settings."""

    config: BaseResponsesAPIAgentConfig


class SimpleResponsesAPIAgent(BaseResponsesAPIAgent, SimpleServer):
    """Subclass this: `responses` is the loop, `run` wraps it in seed and verify."""

    __server_type__: ClassVar[str] = "responses_api_agents"

    config: BaseResponsesAPIAgentConfig

    def setup_webserver(self) -> FastAPI:
        """The app with the protocol's endpoints; override to add routes."""
        app = FastAPI(title=self.config.name or type(self).__name__)
        self.setup_session_middleware(app)
        app.post("/v1/responses")(self.responses)
        app.post("/run")(self.run)
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        return app

    @abstractmethod
    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Work on a task; the response's output is the whole trajectory."""

    @abstractmethod
    async def run(self, body: BaseRunRequest = Body()) -> BaseVerifyResponse:
        """One rollout: seed, respond, verify."""

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        """Metrics over many rollouts: the environment's, where there is one behind this agent."""
        environment = getattr(self.config, "resources_server", None)
        has_own_metrics = type(self).compute_metrics is not SimpleResponsesAPIAgent.compute_metrics
        if environment is None or has_own_metrics:
            return await asyncio.to_thread(
                aggregated, body.verify_responses, self.compute_metrics, self.get_key_metrics
            )
        reply = await self.server_client.post(
            server_name=environment.name, url_path="/aggregate_metrics", json=body
        )
        return AggregateMetrics.model_validate(await response_json(reply))

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Metrics of your own, instead of the environment's; none by default."""
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """The few to show first: by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}


__all__ = [
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseResponsesAPIAgent",
    "BaseResponsesAPIAgentConfig",
    "BaseRunRequest",
    "BaseVerifyRequest",
    "BaseVerifyResponse",
    "Body",
    "FastAPI",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "SimpleResponsesAPIAgent",
]
