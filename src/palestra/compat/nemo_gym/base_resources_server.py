"""`nemo_gym.base_resources_server`: what an environment is."""

import asyncio
import inspect
from abc import abstractmethod
from enum import StrEnum
from typing import Any, ClassVar

from fastapi import Body, FastAPI, Request, Response
from pydantic import BaseModel

from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.config_types import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunServerInstanceConfig,
    Domain,
)
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.servers import BaseServer, SimpleServer
from palestra.schema import JsonDict


class ReverifyMode(StrEnum):
    """Whether stored responses can be verified again."""

    STATELESS = "stateless"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class BaseResourcesServerConfig(BaseRunServerInstanceConfig):
    """Settings of an environment; add your own as fields of a subclass."""

    expose_tools_over_mcp: bool = False
    """Offer the POST routes at `/mcp` too, as tools for agents that speak MCP."""


class BaseRunRequest(BaseModel):
    """One task row. Fields that a subclass does not declare are left out."""

    responses_create_params: NeMoGymResponseCreateParamsNonStreaming


class BaseVerifyRequest(BaseRunRequest):
    """The task row and the trajectory that the agent produced."""

    response: NeMoGymResponse


class BaseVerifyResponse(BaseVerifyRequest):
    """The verify request with its reward."""

    reward: float


class BaseSeedSessionRequest(BaseModel):
    """The task row, before the first model call."""


class BaseSeedSessionResponse(BaseModel):
    """What an environment answers to it; usually nothing."""


class BaseResourcesServer(BaseServer):
    """An environment's settings."""

    config: BaseResourcesServerConfig


class SimpleResourcesServer(BaseResourcesServer, SimpleServer):
    """Subclass this: `verify` is required; tools are routes of `setup_webserver`."""

    __server_type__: ClassVar[str] = "resources_servers"

    config: BaseResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        """The app with the protocol's endpoints; override to add your tools."""
        app = FastAPI(title=self.config.name or type(self).__name__)
        self.setup_session_middleware(app)
        app.post("/seed_session")(self.seed_session)
        app.post("/verify")(self.verify)
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        mode = _declared_mode(self)

        async def reverify_mode() -> dict[str, str]:
            declared = mode() if callable(mode) else mode
            declared = await declared if inspect.isawaitable(declared) else declared
            return {"reverify_mode": str(declared)}

        app.get("/reverify_mode")(reverify_mode)
        return app

    async def seed_session(self, body: BaseSeedSessionRequest) -> BaseSeedSessionResponse:
        """Prepare the session from the task row."""
        del body
        return BaseSeedSessionResponse()

    @abstractmethod
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        """Score the trajectory in `body.response`."""

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        """Metrics over many rollouts, with `compute_metrics` and `get_key_metrics`."""
        return await asyncio.to_thread(
            aggregated, body.verify_responses, self.compute_metrics, self.get_key_metrics
        )

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Metrics of your own, of the verify responses of each task's rollouts; none by default."""
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """The few to show first: by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}


def _declared_mode(server: SimpleResourcesServer) -> Any:
    """What the author declared: as a field, a class attribute, a setting, or a method."""
    for name in ("reverify_mode", "get_reverify_mode", "REVERIFY_MODE", "_reverify_mode"):
        declared = getattr(server, name, None) or getattr(
            getattr(server, "config", None), name, None
        )
        if declared is not None:
            return declared
    class_values = [value for kind in type(server).__mro__ for value in vars(kind).values()]
    modes = [value for value in class_values if isinstance(value, ReverifyMode)]
    if modes:
        return modes[0]
    parameters = inspect.signature(server.verify).parameters.values()
    sees_session = any(_is_request(parameter.annotation) for parameter in parameters)
    # What it cannot reach it cannot depend on.
    return ReverifyMode.UNKNOWN if sees_session else ReverifyMode.STATELESS


def _is_request(annotation: Any) -> bool:
    # As text where the author's module postpones its annotations.
    return annotation is Request or str(annotation).rpartition(".")[2] == "Request"


__all__ = [
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseResourcesServer",
    "BaseResourcesServerConfig",
    "BaseRunRequest",
    "BaseSeedSessionRequest",
    "BaseSeedSessionResponse",
    "BaseVerifyRequest",
    "BaseVerifyResponse",
    "Body",
    "Domain",
    "FastAPI",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "ReverifyMode",
    "SimpleResourcesServer",
]
