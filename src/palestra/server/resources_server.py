"""`ResourcesServer`: an environment. It holds state and tools, and verifies."""

import asyncio
import inspect
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

from fastapi import FastAPI
from pydantic import BaseModel, PrivateAttr
from starlette.requests import Request

from palestra.config import ServerType
from palestra.errors import CallError, JudgeFailure, Outcome, PromptTooLong, VerifierError
from palestra.schema import (
    AggregateMetrics,
    AggregateMetricsRequest,
    JsonDict,
    JsonObject,
    Response,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    fields_of,
    finite_reward,
    maker,
    no_reward,
)
from palestra.server.endpoints import AroundMethod, Endpoint, ToolFailure
from palestra.server.mcp import McpDoor, NoSuchTool, ToolAnswer, plainly_named
from palestra.server.reward_rules import RewardRules
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import CLOSE_SESSION, SESSION_ID_KEY, Session
from palestra.server.tools import is_tool, tool_schema

ReverifyMode = Literal["stateless", "replay_tools", "unsupported", "unknown"]
"""Whether `verify` can score a stored response, whose session is gone: `stateless` when it needs
nothing but its request; `replay_tools` when its session can be made again, by seeding one from
the row and running the trajectory's tool calls in it (so the tools must reach nothing outside);
`unsupported` when it cannot do without the live session."""

REPEATABLE = "/repeatable"
"""Where an environment says whether a rollout may be begun again."""

_make_verify_response = maker(VerifyResponse)
_OF_VERIFY_RESPONSE = tuple(VerifyResponse.model_fields)


class AuthorWorkers(Protocol):
    """The processes in which a server's methods run."""

    async def start(self) -> None:
        """Have one ready."""

    async def perform(self, endpoint: Endpoint, body: Any, session_id: str, /) -> Any:
        """Run an endpoint's method there."""

    async def close(self) -> None:
        """End them."""


class ResourcesServerConfig(ServerConfig):
    """Settings of an environment; add your own as fields of a subclass."""

    expose_tools_over_mcp: bool = False
    """Offer the tools at `/mcp` too, for agents that speak MCP."""


class ResourcesServer(Server):
    """Subclass this: `verify` is required, `seed_session` and `@tool` methods as needed.

    Any of them may take a parameter annotated with `Session` to keep state for the rollout.
    """

    config: ResourcesServerConfig

    reverify_mode: ClassVar[ReverifyMode] = "unknown"
    """Declare it when `verify` takes the session; one that does not is `stateless` by itself."""

    repeatable: ClassVar[bool | None] = None
    """Whether a rollout that has begun here, and failed, may be begun again in a new session: it
    may when nothing outside of the session is touched. None: only where nothing is done but to
    verify, without a session, and where `reverify_mode` says that tools may be replayed."""

    isolated: ClassVar[bool] = True
    """Whether its methods run in worker processes when any of `verify`, `seed_session` and the
    tools is a plain one. Each worker holds a replica of the server, made once, with `start` run in
    each; a session stays in one of them. Not where the class has routes of its own. False: all runs
    in the server's process, where a plain method that does not return stops everything."""

    reward_rules: ClassVar[RewardRules] = RewardRules()
    """What its rewards may be; `palestra verify-env` holds the verifier to it."""

    _palestra_workers: AuthorWorkers | None = PrivateAttr(default=None)

    def isolate(self, workers: AuthorWorkers) -> None:
        """Have the methods of the author's run in `workers`."""
        self._palestra_workers = workers
        for endpoint in self._palestra_endpoints.values():
            if endpoint.path != "/aggregate_metrics":
                endpoint.send_away(workers.perform)

    def wants_isolation(self) -> bool:
        """Whether a plain method of the author's could hold the server's process up."""
        kind = type(self)
        ours = all(
            method.__module__.startswith("palestra.server.")
            for method in (kind.routes, kind.setup_webserver)
        )
        plain = (
            endpoint.is_sync and endpoint.path != CLOSE_SESSION
            for endpoint in self._palestra_endpoints.values()
        )
        forwarded = not any(e.wants_request for e in self._palestra_endpoints.values())
        return kind.isolated and ours and forwarded and any(plain)

    async def start_workers(self) -> None:
        """Have one worker ready."""
        if self._palestra_workers is not None:
            await self._palestra_workers.start()

    async def end_workers(self) -> None:
        """End them all."""
        if self._palestra_workers is not None:
            await self._palestra_workers.close()

    def gold_response(self, row: JsonObject) -> Response | None:
        """What a perfect model would answer to a task row; None when that is not known.

        `palestra.schema.response_of` makes one of texts and calls. Calls of tools that this server
        has are run, in their order, before it is verified; where turns are taken, each message is
        one. `palestra verify-env` expects `reward_rules.highest` for it, and derives wrong answers
        from it.
        """
        del row
        return None

    async def seed_session(self, body: Any, *args: Any, **kwargs: Any) -> Any:
        """Prepare the session from the task row, before the first model call.

        Annotate `body` with a model of the fields you need.
        """
        del body, args, kwargs
        return SeedSessionResponse()

    @abstractmethod
    async def verify(self, body: Any, *args: Any, **kwargs: Any) -> Any:
        """Score the trajectory in `body.response`. Never raise because of what a model wrote.

        Annotate `body` with `VerifyRequest`, or with a subclass that declares your row's fields.
        """

    def reply(self, body: VerifyRequest, reward: float, **reported: Any) -> VerifyResponse:
        """The verify response for `body`: the same fields, the reward, and what you report."""
        set_fields = body.model_fields_set
        fields = {name: value for name, value in body.__dict__.items() if name in set_fields}
        fields |= {**(body.model_extra or {}), **reported, "reward": reward}
        protocol_fields = {name: fields.pop(name) for name in _OF_VERIFY_RESPONSE if name in fields}
        return _make_verify_response(protocol_fields, fields)

    def tools(self) -> dict[str, JsonDict]:
        """The `@tool` methods as Responses API tool entries, by name."""
        return {name: tool_schema(method) for name, method in self._tool_methods.items()}

    async def _closed(self, session: Session) -> JsonDict:
        """The rollout was given up before `verify`: what its session holds is released."""
        del session
        return {}

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Metrics over many rollouts; extend by overriding `compute_metrics`."""
        # seconds for hundreds of thousands of rows, which other requests must not wait for
        return await asyncio.to_thread(self._aggregated, body)

    def _aggregated(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        from palestra.metrics import aggregate_metrics  # numpy is half of a server's import

        return AggregateMetrics.model_validate(
            aggregate_metrics(
                body.verify_responses,
                compute_metrics=self.compute_metrics,
                get_key_metrics=self.get_key_metrics,
            )
        )

    def compute_metrics(self, tasks: Any) -> JsonDict:
        """Metrics of your own; none by default. Called in a thread beside the event loop.

        `tasks`: for each task the verify responses of its rollouts, as dicts, to be read only.
        A collection sends them without `responses_create_params`, with nothing of `response` but
        its usage, and without fields that in any of them are a text or container of more than
        2,000 bytes as JSON; `extracted_answer` it sends always.
        """
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: Any) -> JsonDict:
        """The few metrics to show first: by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}

    @property
    def palestra_type(self) -> str:
        """It is an environment."""
        return ServerType.RESOURCES

    def relayed(self, error: CallError) -> CallError:
        """A model that an environment asks is a judge: its failure is none of the policy's."""
        if error.outcome is not Outcome.POLICY_ERROR and not isinstance(error, PromptTooLong):
            return error
        failure = JudgeFailure(
            error.message, hint=error.hint, evidence=error.evidence, status=error.status
        )
        failure.retriable = error.retriable
        return failure

    @cached_property
    def _tool_methods(self) -> dict[str, Any]:
        names = [name for name, member in inspect.getmembers(type(self), is_tool)]
        return {name: getattr(self, name) for name in names}

    def routes(self) -> list[Endpoint]:
        """Seed, verify, aggregate, and one endpoint per tool."""
        exposed = self.config.expose_tools_over_mcp
        return [
            self.endpoint(
                self.seed_session,
                "/seed_session",
                around=AroundMethod(extend=self._with_mcp if exposed else None),
            ),
            self.endpoint(
                self.verify,
                "/verify",
                ends_session=True,
                around=AroundMethod(
                    prepare=self._plainly_named if exposed else None, check=self._check_reward
                ),
            ),
            self.endpoint(self._closed, CLOSE_SESSION, ends_session=True),
            self.endpoint(self.aggregate_metrics, "/aggregate_metrics"),
            *(
                self.endpoint(method, f"/{name}", body="arguments")
                for name, method in self._tool_methods.items()
            ),
        ]

    def setup_webserver(self) -> FastAPI:
        """The app, which also says whether stored responses can be verified again."""
        app = super().setup_webserver()
        app.add_api_route("/reverify_mode", self._report_reverify_mode, methods=["GET"])
        app.add_api_route(REPEATABLE, self._report_repeatable, methods=["GET"])
        if self.config.expose_tools_over_mcp:
            app.router.routes.append(self._mcp.route)
        return app

    @cached_property
    def _mcp(self) -> McpDoor:
        return McpDoor(
            server=self.name, secret=self._palestra_secret, tools=self.tools(), call=self._mcp_call
        )

    async def _mcp_call(self, name: str, arguments: JsonDict, request: Request) -> ToolAnswer:
        endpoint = self.typed_endpoint(f"/{name}")
        if endpoint is None or not endpoint.is_tool:
            raise NoSuchTool(name)
        answer = await endpoint.invoke(arguments, session_id=request.session[SESSION_ID_KEY])
        return ToolAnswer(answer, failed=isinstance(answer, ToolFailure))

    def _with_mcp(self, seeded: Any, session_id: str) -> Any:
        """What seeding answers, and how to reach the tools over MCP."""
        if isinstance(seeded, BaseModel):
            seeded = fields_of(seeded)
        if not isinstance(seeded, dict):
            return seeded
        return {**seeded, "mcp": self._mcp.described(session_id)}

    def _plainly_named(self, body: Any) -> Any:
        return plainly_named(body, server=self.name)

    async def _report_reverify_mode(self) -> dict[str, ReverifyMode]:
        return {"reverify_mode": self.declared_reverify_mode()}

    async def _report_repeatable(self) -> dict[str, bool]:
        return {"repeatable": self.declared_repeatable()}

    def declared_repeatable(self) -> bool:
        """`repeatable`, or what is sure where it is not declared."""
        if self.repeatable is not None:
            return self.repeatable
        if self.reverify_mode == "replay_tools":
            return True
        kind = type(self)
        # A seeding, a tool or a route of its own may do something outside of the session.
        only_verifies = (
            kind.seed_session is ResourcesServer.seed_session
            and kind.setup_webserver is ResourcesServer.setup_webserver
            and kind.routes is ResourcesServer.routes
            and not self._tool_methods
        )
        return only_verifies and self.declared_reverify_mode() == "stateless"

    def declared_reverify_mode(self) -> ReverifyMode:
        """`reverify_mode`, or what the signature of `verify` tells where it is not declared."""
        verify = self.typed_endpoint("/verify")
        undeclared = self.reverify_mode == "unknown"
        # What it cannot reach it cannot depend on.
        if undeclared and verify is not None and not verify.wants_session:
            return "stateless"
        return self.reverify_mode

    def declared_reward_rules(self) -> RewardRules:
        """`reward_rules`, or what stands in their place."""
        return self.reward_rules

    def _check_reward(self, result: Any) -> None:
        """A reward that is no finite number never leaves the environment."""
        reward = (
            result.get("reward") if isinstance(result, dict) else getattr(result, "reward", None)
        )
        if finite_reward(reward) is not None:
            return
        raise VerifierError(
            f"{self.name}/verify returned {no_reward(reward)}",
            hint="verify must return a finite number as `reward`",
        )
