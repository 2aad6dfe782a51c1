"""`nemo_gym.base_resources_server`: the base classes of an environment."""

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
    """Whether stored responses of an environment can be verified again."""

    STATELESS = "stateless"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class BaseResourcesServerConfig(BaseRunServerInstanceConfig):
    """The settings of an environment. Subclass it to add your own fields."""

    expose_tools_over_mcp: bool = False
    """Whether the POST routes are also tools at `/mcp`, for agents that use MCP."""


class BaseRunRequest(BaseModel):
    """One task row. Fields that a subclass does not declare are dropped."""

    responses_create_params: NeMoGymResponseCreateParamsNonStreaming


class BaseVerifyRequest(BaseRunRequest):
    """A request to score a rollout: the task row and the trajectory that the agent produced."""

    response: NeMoGymResponse


class BaseVerifyResponse(BaseVerifyRequest):
    """The verify request with the reward added."""

    reward: float


class BaseSeedSessionRequest(BaseModel):
    """The task row, sent before the first model call."""


class BaseSeedSessionResponse(BaseModel):
    """The response to a seed session request; usually empty."""


class BaseResourcesServer(BaseServer):
    """The base of an environment: it holds the settings."""

    config: BaseResourcesServerConfig


class SimpleResourcesServer(BaseResourcesServer, SimpleServer):
    """The base class of an environment. Subclasses must define `verify`; tools are routes added in
    `setup_webserver`.
    """

    __server_type__: ClassVar[str] = "resources_servers"

    config: BaseResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints. Override this method to add your tools."""
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
        """Return metrics over many rollouts, computed with `compute_metrics` and `get_key_metrics`."""
        return await asyncio.to_thread(
            aggregated, body.verify_responses, self.compute_metrics, self.get_key_metrics
        )

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Return your own metrics; none by default. `tasks`: for each task, its rollouts' verify
        responses.
        """
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Return the few metrics to show first; by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}


def _declared_mode(server: SimpleResourcesServer) -> Any:
    """Return the reverify mode that the author declared as a field, class attribute, setting, or
    method.

    Default: STATELESS, or UNKNOWN when `verify` takes the HTTP request, and so the session.
    """
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
