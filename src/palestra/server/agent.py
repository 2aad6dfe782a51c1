"""`Agent`: runs the loop of model calls and tool calls for one rollout."""

import asyncio
import contextlib
import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from palestra.config import ServerType
from palestra.errors import CallError
from palestra.schema import (
    CREATE_PARAMS,
    JSON_TYPE,
    AggregateMetrics,
    AggregateMetricsRequest,
    JsonDict,
    RejectedField,
    Response,
    ResponseCreateParams,
    RunRequest,
    VerifyResponse,
    encode_json,
)
from palestra.server.endpoints import AroundMethod, Endpoint, row_error
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import CLOSE_SESSION
from palestra.settings import misspelt_parameters, not_a_parameter
from palestra.transport import CallContext, Peer, calling, current_call

CLOSING_S: Final = 1.0
AT_ONCE_S: Final = 0.05
"""The longest time in seconds that a failed rollout waits until its session is closed."""


async def _closed(environment: Peer) -> None:
    # The rollout's own deadline may be what has passed.
    context = CallContext(row=current_call().row, deadline=time.monotonic() + CLOSING_S)
    with calling(context), contextlib.suppress(CallError, TimeoutError):
        async with asyncio.timeout(CLOSING_S):
            await environment.notify(CLOSE_SESSION, {})


class ServerReference(BaseModel):
    """A reference to another server instance of the fleet, by type and name."""

    model_config = ConfigDict(extra="forbid")

    type: str
    name: str


class ModelReference(ServerReference):
    """A reference to a model server."""

    type: Literal["responses_api_models"]


class ResourcesReference(ServerReference):
    """A reference to a resources server."""

    type: Literal["resources_servers"]


class AgentConfig(ServerConfig):
    """Settings of an agent. A top-level key with the name of a field is the default of all agents."""

    skip_verification: bool | None = None
    """Whether a rollout ends without a call of `/verify`, with the reward below. None: no, unless
    the top-level key says so."""

    skip_verification_reward: float | None = Field(default=None, allow_inf_nan=False)
    """The reward of every rollout that is not verified. None: 0.0, unless the top-level key gives
    another."""


class BoundAgentConfig(AgentConfig):
    """The settings of an agent that is bound to one environment and one model."""

    resources_server: ResourcesReference
    """The environment: it seeds the session, runs the tools and verifies."""

    model_server: ModelReference
    """The model server that serves the policy."""


class Agent(Server):
    """The base class of agents. Subclass it and write `respond`; `run` seeds the session before
    `respond` and calls `/verify` after it.
    """

    config: AgentConfig

    palestra_failures: ClassVar[frozenset[int]] = frozenset({400, 401, 409, 422, 500, 504})

    _palestra_closing: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    @property
    def palestra_type(self) -> str:
        """The server type "agent"."""
        return ServerType.AGENT

    async def close_session(self, environment: Peer) -> None:
        """Ask the environment to close the rollout's session, because the rollout will not be
        verified.

        For a rollout that failed or was cancelled; otherwise `verify` ends the session. Waits at
        most `AT_ONCE_S`; a slow close continues in the background, because an environment that
        hangs may be the cause of the failure.
        """
        closing = asyncio.create_task(_closed(environment), name=f"close {environment.name}")
        self._palestra_closing.add(closing)
        closing.add_done_callback(self._palestra_closing.discard)
        await asyncio.wait({closing}, timeout=AT_ONCE_S)

    async def stop(self) -> None:
        """Wait until the sessions that are being closed are closed, then stop."""
        if self._palestra_closing:
            await asyncio.wait(self._palestra_closing)
        await super().stop()

    @abstractmethod
    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        """Work on the task until it ends. Return a response whose output is the whole trajectory."""

    @abstractmethod
    def environment_name(self) -> str:
        """Return the name of the resources server that runs the tools and verifies."""

    @abstractmethod
    def model_name(self) -> str:
        """Return the name of the model server that serves the policy."""

    async def run(self, body: RunRequest) -> VerifyResponse:
        """Run one rollout: seed the session, call `respond`, verify."""
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
        return await self.verified(environment, {**row, "response": response})

    def _with_spelt_parameters(self, body: Any) -> Any:
        """Return the row. Raises RowError: a parameter of its request is most likely misspelt. The
        environment would refuse it only after the model's calls.
        """
        params = getattr(body, CREATE_PARAMS, None)
        if not isinstance(params, ResponseCreateParams) or not params.model_extra:
            return body
        fields = [
            RejectedField(f"/{CREATE_PARAMS}/{name}", not_a_parameter(near))
            for name, near in misspelt_parameters(params.model_fields_set).items()
        ]
        if fields:
            raise row_error(self.name, "/run", fields, hint="correct the name in the row")
        return body

    async def verified(self, environment: Peer, row: JsonDict) -> VerifyResponse:
        """Return the verification of `row`, which holds the response; with `skip_verification`, the
        row with the configured reward.
        """
        if not self._setting("skip_verification"):
            return await environment.call("/verify", row, VerifyResponse)
        await self.close_session(environment)
        reward = self._setting("skip_verification_reward") or 0.0
        return VerifyResponse.model_validate({**row, "reward": reward})

    def _setting(self, name: str) -> Any:
        own_value = getattr(self.config, name)
        return self.server_client.tree.get(name) if own_value is None else own_value

    async def responses(self, params: ResponseCreateParams, request: Request) -> HttpResponse:
        """Answer `POST /v1/responses`: run only the agent's loop, in a session that the caller has
        seeded.
        """
        environment = self.server_client.peer(self.environment_name(), cookies=request.cookies)
        model = self.server_client.peer(self.model_name(), cookies=request.cookies)
        response = await self.respond(params, environment=environment, model=model)
        answer = HttpResponse(encode_json(response), media_type=JSON_TYPE)
        cookies: Mapping[str, str] = {**model.cookies, **environment.cookies}
        for name, value in cookies.items():
            answer.set_cookie(name, value)
        return answer

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Return the metrics over many rollouts that this agent's environment computes; none when
        verification is skipped.
        """
        if self._setting("skip_verification"):
            message = f"{self.name} skips verification: there are no metrics"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return AggregateMetrics()
        environment = self.server_client.peer(self.environment_name())
        return await environment.call("/aggregate_metrics", body, AggregateMetrics)

    def routes(self) -> list[Endpoint]:
        """Return the endpoints: `/run`, `/v1/responses`, `/aggregate_metrics`."""
        return [
            self.endpoint(
                self.run, "/run", around=AroundMethod(prepare=self._with_spelt_parameters)
            ),
            self.endpoint(self.responses, "/v1/responses", answers={JSON_TYPE: Response}),
            self.endpoint(self.aggregate_metrics, "/aggregate_metrics"),
        ]


class BoundAgent(Agent):
    """An agent whose settings name its environment and its model. Write only `respond`."""

    config: BoundAgentConfig

    def environment_name(self) -> str:
        """Return the name of the configured resources server."""
        return self.config.resources_server.name

    def model_name(self) -> str:
        """Return the name of the configured model server."""
        return self.config.model_server.name
