"""`nemo_gym.base_resources_server`: the base classes of an environment."""

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final

from fastapi import Body, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from palestra.compat.mcp import MCP_PATH, RESERVED_NAMES, Catchall, MCPTool, bare_name
from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.config_types import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunServerInstanceConfig,
    Domain,
)
from palestra.compat.nemo_gym.judge import judge_failsafe
from palestra.compat.nemo_gym.rollout_correlation import RolloutContextMiddleware
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.servers import BaseServer, SimpleServer
from palestra.schema import JsonDict
from palestra.server import INFERRED_REVERIFY_MODE, REVERIFY_MODE_PATH, TOKEN_HEADER

NEMO_GYM_MCP_METADATA_KEY: Final = "mcp"
NEMO_GYM_MCP_SESSION_TOKEN_HEADER: Final = TOKEN_HEADER
RESERVED_MCP_TOOL_NAMES: Final = RESERVED_NAMES
normalize_tool_name = bare_name


class ReverifyMode(StrEnum):
    """Whether stored responses of an environment can be verified again."""

    STATELESS = "stateless"
    REPLAY_TOOLS = "replay_tools"
    """The tool calls of a stored response make its session again. NeMo Gym does not have it."""
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class MCPServerMetadata(BaseModel):
    """How to reach an environment's tools over MCP, in the answer of `/seed_session`."""

    server_name: str
    url_path: str = MCP_PATH
    transport: str = "http"
    headers: dict[str, str] = Field(default_factory=dict)


class BaseResourcesServerConfig(BaseRunServerInstanceConfig):
    """The settings of an environment. Subclass it to add your own fields."""

    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.UNKNOWN
    """Whether `verify` can score a stored response, whose session is gone. Override it."""

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


class BaseMultiRewardVerifyResponse(BaseVerifyResponse):
    """A verify response with several named rewards; `reward` is the total."""

    reward_components: dict[str, float]


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
        app.add_middleware(RolloutContextMiddleware)
        app.post("/seed_session")(self.seed_session)
        is_async = inspect.iscoroutinefunction(self.verify)
        app.post("/verify")(judge_failsafe(self.verify) if is_async else self.verify)
        app.post("/aggregate_metrics")(self.aggregate_metrics)

        async def reverify_mode() -> JSONResponse:
            declared = self.get_reverify_mode()
            mode = ReverifyMode(await declared if inspect.isawaitable(declared) else declared)
            inferred = mode is ReverifyMode.UNKNOWN and not _sees_session(self)
            headers = {INFERRED_REVERIFY_MODE: ReverifyMode.STATELESS.value} if inferred else None
            return JSONResponse(mode.value, headers=headers)

        app.get(REVERIFY_MODE_PATH)(reverify_mode)
        return app

    async def get_reverify_mode(self) -> ReverifyMode:
        """Return whether stored responses can be verified again; by default the config's
        `REVERIFY_MODE`.
        """
        return self.config.REVERIFY_MODE

    def normalize_tool_name(self, name: str) -> str:
        """Return the tool's own name; MCP clients record it as `mcp__<server>__<tool>`."""
        return bare_name(name, self.config.name)

    def mcp_tools(
        self, harvested: list[MCPTool], catchall: Catchall | None
    ) -> Sequence[MCPTool] | None:
        """Return the tools to offer over MCP; by default all that the routes describe.

        `catchall`: makes the tools of a route that takes any name; None when there is none.
        """
        del catchall
        return harvested

    def mcp_allowed_tools_for_session(self, seed_body: JsonDict) -> list[str] | None:
        """Return the names of the tools that a session may use over MCP; None, the default, for all.

        `seed_body`: the body of its `/seed_session`.
        """
        del seed_body
        return None

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


def _sees_session(server: SimpleResourcesServer) -> bool:
    """Whether `verify` takes the HTTP request, and so the session that a stored response lacks."""
    parameters = inspect.signature(server.verify).parameters.values()
    return any(_is_request(parameter.annotation) for parameter in parameters)


def _is_request(annotation: Any) -> bool:
    # As text where the author's module postpones its annotations.
    return annotation is Request or str(annotation).rpartition(".")[2] == "Request"


__all__ = [
    "NEMO_GYM_MCP_METADATA_KEY",
    "NEMO_GYM_MCP_SESSION_TOKEN_HEADER",
    "RESERVED_MCP_TOOL_NAMES",
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseMultiRewardVerifyResponse",
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
    "MCPServerMetadata",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "ReverifyMode",
    "SimpleResourcesServer",
    "normalize_tool_name",
]
