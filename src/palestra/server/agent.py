"""`Agent`: runs the loop of model calls and tool calls for one rollout."""

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, PrivateAttr
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from palestra.config import ServerType
from palestra.errors import CallError
from palestra.schema import (
    JSON_TYPE,
    AggregateMetrics,
    AggregateMetricsRequest,
    Response,
    ResponseCreateParams,
    RunRequest,
    VerifyResponse,
    encode_json,
)
from palestra.server.endpoints import Endpoint
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import CLOSE_SESSION
from palestra.transport import CallContext, Peer, calling, current_call

CLOSING_S: Final = 1.0
AT_ONCE_S: Final = 0.05
"""How long whoever waits for the failure also waits for an environment that answers at once."""


async def _closed(environment: Peer) -> None:
    # The rollout's own deadline may be what has passed.
    context = CallContext(row=current_call().row, deadline=time.monotonic() + CLOSING_S)
    with calling(context), contextlib.suppress(CallError, TimeoutError):
        async with asyncio.timeout(CLOSING_S):
            await environment.notify(CLOSE_SESSION, {})


class ServerReference(BaseModel):
    """Another instance of the fleet, by type and name."""

    model_config = ConfigDict(extra="forbid")

    type: str
    name: str


class AgentConfig(ServerConfig):
    """Settings of an agent."""


class BoundAgentConfig(AgentConfig):
    """Settings of an agent for one environment and one model."""

    resources_server: ServerReference
    """The environment: it seeds the session, runs the tools and verifies."""

    model_server: ServerReference
    """The model that answers as the policy."""


class Agent(Server):
    """Subclass this and write `respond`; `run` wraps it in seed and verify."""

    config: AgentConfig

    palestra_failures: ClassVar[frozenset[int]] = frozenset({400, 401, 409, 422, 500, 504})

    _palestra_closing: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    @property
    def palestra_type(self) -> str:
        """It is an agent."""
        return ServerType.AGENT

    async def close_session(self, environment: Peer) -> None:
        """Tell the environment that its session is of no use: the rollout will not be verified.

        For a rollout that failed, or that nobody wants any more; `verify` ends a session by itself.
        An environment that hangs may be the failure, whose caller has little time left to hear of
        it: what takes longer than a moment goes on beside it.
        """
        closing = asyncio.create_task(_closed(environment), name=f"close {environment.name}")
        self._palestra_closing.add(closing)
        closing.add_done_callback(self._palestra_closing.discard)
        await asyncio.wait({closing}, timeout=AT_ONCE_S)

    async def stop(self) -> None:
        """Let sessions be closed that are about to be."""
        if self._palestra_closing:
            await asyncio.wait(self._palestra_closing)
        await super().stop()

    @abstractmethod
    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        """Work on the task until it ends; the response's output is the whole trajectory."""

    @abstractmethod
    def environment_name(self) -> str:
        """The instance that holds the tools and verifies."""

    @abstractmethod
    def model_name(self) -> str:
        """The instance that answers as the policy."""

    async def run(self, body: RunRequest) -> VerifyResponse:
        """One rollout: seed, respond, verify."""
        environment = self.server_client.peer(self.environment_name())
        model = self.server_client.peer(self.model_name())
        row = {**body.__dict__, **(body.model_extra or {})}
        try:
            await environment.notify("/seed_session", row)
            response = await self.respond(
                body.responses_create_params, environment=environment, model=model
            )
        except BaseException:
            await self.close_session(environment)
            raise
        return await environment.call("/verify", {**row, "response": response}, VerifyResponse)

    async def responses(self, params: ResponseCreateParams, request: Request) -> HttpResponse:
        """`POST /v1/responses`: the loop alone, inside a session the caller has seeded."""
        environment = self.server_client.peer(self.environment_name(), cookies=request.cookies)
        model = self.server_client.peer(self.model_name(), cookies=request.cookies)
        response = await self.respond(params, environment=environment, model=model)
        answer = HttpResponse(encode_json(response), media_type=JSON_TYPE)
        cookies: Mapping[str, str] = {**model.cookies, **environment.cookies}
        for name, value in cookies.items():
            answer.set_cookie(name, value)
        return answer

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Metrics over many rollouts, as the environment behind this agent reports them."""
        environment = self.server_client.peer(self.environment_name())
        return await environment.call("/aggregate_metrics", body, AggregateMetrics)

    def routes(self) -> list[Endpoint]:
        """Run, respond, aggregate."""
        return [
            self.endpoint(self.run, "/run"),
            self.endpoint(self.responses, "/v1/responses", answers={JSON_TYPE: Response}),
            self.endpoint(self.aggregate_metrics, "/aggregate_metrics"),
        ]


class BoundAgent(Agent):
    """An agent whose settings name its environment and its model; only `respond` is to be written."""

    config: BoundAgentConfig

    def environment_name(self) -> str:
        """The configured resources server."""
        return self.config.resources_server.name

    def model_name(self) -> str:
        """The configured model server."""
        return self.config.model_server.name
