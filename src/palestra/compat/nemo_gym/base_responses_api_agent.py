"""`nemo_gym.base_responses_api_agent`: the base classes of an agent, which runs the loop of a
rollout.
"""

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
    """The settings of an agent. Subclass it to add your own fields."""


class BaseResponsesAPIAgent(BaseServer):
    """The base of an agent: it holds the settings."""

    config: BaseResponsesAPIAgentConfig


class SimpleResponsesAPIAgent(BaseResponsesAPIAgent, SimpleServer):
    """The base class of an agent: `responses` is the loop, `run` calls seed, `responses` and
    verify.
    """

    __server_type__: ClassVar[str] = "responses_api_agents"

    config: BaseResponsesAPIAgentConfig

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints. Override this method to add routes."""
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
        """Work on a task. The output of the returned response is the whole trajectory."""

    @abstractmethod
    async def run(self, body: BaseRunRequest = Body()) -> BaseVerifyResponse:
        """Run one rollout: seed, respond, verify."""

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        """Return metrics over many rollouts.

        They come from the agent's environment; from this class when there is none or
        `compute_metrics` is overridden.
        """
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
        """Return your own metrics; none by default. An override replaces the environment's metrics."""
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Return the few metrics to show first; by default every mean."""
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
