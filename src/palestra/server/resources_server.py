"""`ResourcesServer`: an environment. It has state and tools, and verifies."""

import asyncio
from abc import abstractmethod
from functools import cached_property
from types import MethodType
from typing import Any, ClassVar, Literal, Protocol

from fastapi import FastAPI
from pydantic import BaseModel, PrivateAttr
from starlette.requests import Request

from palestra.config import ServerType
from palestra.errors import CallError, JudgeFailure, VerifierError
from palestra.schema import (
    OUTSIDE_REWARD_RULES,
    REWARD_ADVICE,
    AggregateMetrics,
    AggregateMetricsRequest,
    JsonDict,
    JsonObject,
    Response,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    field_of,
    fields_of,
    finite_reward,
    maker,
    reward_problem,
)
from palestra.server.endpoints import AroundMethod, Endpoint, ToolFailure
from palestra.server.mcp import McpDoor, NoSuchTool, ToolAnswer, plainly_named
from palestra.server.reward_rules import RewardRules
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import CLOSE_SESSION, SESSION_ID_KEY, Session
from palestra.server.tools import tool_schema, tools_of

ReverifyMode = Literal["stateless", "replay_tools", "replay_turns", "unsupported", "unknown"]
"""Whether `verify` can score a stored response, whose session no longer exists.

`stateless`: it needs only its request. `replay_tools`: the session can be rebuilt by seeding it
from the row and running the trajectory's tool calls again, so the tools must change nothing outside
the session. `replay_turns`: the same, and each turn without calls is sent to `/step` again.
`unsupported`: it needs the live session.
"""

REPEATABLE = "/repeatable"
"""The path where an environment reports whether a failed rollout may be started again."""

REVERIFY_MODE_PATH = "/reverify_mode"
"""The path where an environment reports its `ReverifyMode`, as a JSON string."""

INFERRED_REVERIFY_MODE = "x-palestra-reverify-mode"
"""The header in which an environment whose class declares no mode reports the mode that the
signature of `verify` allows."""

_make_verify_response = maker(VerifyResponse)
_OF_VERIFY_RESPONSE = tuple(VerifyResponse.model_fields)


def refuse_reward(where: str, problem: str) -> None:
    """Raise VerifierError when there is a `problem` with the reward that `where` returned."""
    if problem:
        raise VerifierError(
            f"{where} returned {problem}",
            hint=REWARD_ADVICE,
        )


class AuthorWorkers(Protocol):
    """The worker processes that run a server's methods."""

    async def start(self) -> None:
        """Start one worker, so that it is ready."""

    async def perform(self, endpoint: Endpoint, body: Any, session_id: str, /) -> Any:
        """Run an endpoint's method in a worker."""

    async def close(self) -> None:
        """End the workers."""


class ResourcesServerConfig(ServerConfig):
    """The settings of an environment. Add your own as fields of a subclass."""

    expose_tools_over_mcp: bool = False
    """Whether to offer the tools at `/mcp` too, for agents that speak MCP."""


class ResourcesServer(Server):
    """The base class of environments. `verify` is required; add `seed_session` and `@tool` methods
    as needed.

    Each of these methods may take a parameter annotated with `Session`, to keep state for the
    rollout.
    """

    config: ResourcesServerConfig

    reverify_mode: ClassVar[ReverifyMode] = "unknown"
    """Set this when `verify` takes the session. Without a session, `unknown` counts as `stateless`.
    """

    repeatable: ClassVar[bool | None] = None
    """Whether a rollout that began and failed may be started again in a new session. This is safe
    when nothing outside the session changes. None: safe if `reverify_mode` is `replay_tools`, or if
    the server only verifies, without a session, tools or own routes."""

    isolated: ClassVar[bool] = True
    """Whether to run the methods in worker processes if any of `verify`, `seed_session` and the
    tools is a plain (not async) method. Each worker holds one replica of the server and runs
    `start`; a session stays in one worker. A class with its own routes gets no workers. False: all
    methods run in the server's process, where a plain method that does not return blocks
    everything."""

    reward_rules: ClassVar[RewardRules] = RewardRules()
    """The rewards that the verifier may return; `palestra verify-env` checks them."""

    _palestra_workers: AuthorWorkers | None = PrivateAttr(default=None)

    def isolate(self, workers: AuthorWorkers) -> None:
        """Run the author's methods in `workers`."""
        self._palestra_workers = workers
        for endpoint in self._palestra_endpoints.values():
            if endpoint.path != "/aggregate_metrics":
                endpoint.send_away(workers.perform)

    def wants_isolation(self) -> bool:
        """Whether a plain (not async) method of the author could block the server's process, so
        that workers are needed.
        """
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
        """Start one worker, if the methods run in workers."""
        if self._palestra_workers is not None:
            await self._palestra_workers.start()

    async def end_workers(self) -> None:
        """End the workers, if there are any."""
        if self._palestra_workers is not None:
            await self._palestra_workers.close()

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the answer of a perfect model to a task row; None when it is not known.

        `palestra.schema.response_of` makes a response from texts and tool calls. Calls of this
        server's tools are run in order before the response is verified. For an environment that
        takes turns, each message is one turn. `palestra verify-env` expects the reward
        `reward_rules.highest` for it, and derives wrong answers from it.
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
        """Score the trajectory in `body.response`. Never raise an error because of a model's
        output.

        Annotate `body` with `VerifyRequest`, or with a subclass that declares your row's fields.
        """

    def reply(self, body: VerifyRequest, reward: float, **reported: Any) -> VerifyResponse:
        """Return the verify response for `body`: its fields, the reward, and the fields in
        `reported`.
        """
        set_fields = body.model_fields_set
        fields = {name: value for name, value in body.__dict__.items() if name in set_fields}
        fields |= {**(body.model_extra or {}), **reported, "reward": reward}
        protocol_fields = {name: fields.pop(name) for name in _OF_VERIFY_RESPONSE if name in fields}
        return _make_verify_response(protocol_fields, fields)

    def tools(self) -> dict[str, JsonDict]:
        """Return the `@tool` methods as Responses API tool entries, by name."""
        return {name: tool_schema(method) for name, method in self._tool_methods.items()}

    async def _closed(self, session: Session) -> JsonDict:
        """Release what the session holds: the rollout was given up before `verify`."""
        del session
        return {}

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Return metrics over many rollouts. To add your own, override `compute_metrics`."""
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
        """Return your own metrics; none by default. Called in a thread, outside the event loop.

        `tasks`: for each task the verify responses of its rollouts, as read-only dicts. In a
        collection they lack `responses_create_params`, everything of `response` but its usage, and
        each field that is a text or container of more than 2,000 bytes as JSON in any of them.
        `extracted_answer` is always present.
        """
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: Any) -> JsonDict:
        """Return the few metrics to show first: by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}

    @property
    def palestra_type(self) -> str:
        """The server type of an environment."""
        return ServerType.RESOURCES

    def relayed(self, error: CallError) -> CallError:
        """Return the error for this server's caller: a model that it asked is a judge."""
        return JudgeFailure.relayed(error)

    @cached_property
    def _tool_methods(self) -> dict[str, Any]:
        return {name: MethodType(function, self) for name, function in tools_of(type(self)).items()}

    def routes(self) -> list[Endpoint]:
        """Return the endpoints: seed, verify, close, aggregate, and one for each tool."""
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
                    prepare=self._plainly_named if exposed else None,
                    check=self._check_reward,
                    extend=self._with_broken_rules,
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
        """Return the app, with paths that report whether stored responses can be verified again and
        whether rollouts can be repeated.
        """
        app = super().setup_webserver()
        app.add_api_route(REVERIFY_MODE_PATH, self._report_reverify_mode, methods=["GET"])
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
        """Return the answer of `seed_session` with an `mcp` field: how to reach the tools over MCP."""
        if isinstance(seeded, BaseModel):
            seeded = fields_of(seeded)
        if not isinstance(seeded, dict):
            return seeded
        return {**seeded, "mcp": self._mcp.described(session_id)}

    def _plainly_named(self, body: Any) -> Any:
        return plainly_named(body, server=self.name)

    async def _report_reverify_mode(self) -> ReverifyMode:
        return self.declared_reverify_mode()

    async def _report_repeatable(self) -> dict[str, bool]:
        return {"repeatable": self.declared_repeatable()}

    def declared_repeatable(self) -> bool:
        """Return `repeatable`; when it is None, whether repeating is certainly safe."""
        if self.repeatable is not None:
            return self.repeatable
        return self.reverify_mode == "replay_tools" or not self.palestra_keeps_state

    @property
    def palestra_keeps_state(self) -> bool:
        """Whether a call may depend on an earlier one of its rollout. It does not where `verify` is
        all there is, and takes no session.
        """
        kind = type(self)
        # A seeding, a tool or a route of its own may do something outside of the session.
        only_verifies = (
            kind.seed_session is ResourcesServer.seed_session
            and kind.setup_webserver is ResourcesServer.setup_webserver
            and kind.routes is ResourcesServer.routes
            and not self._tool_methods
        )
        return not (only_verifies and self.declared_reverify_mode() == "stateless")

    def declared_reverify_mode(self) -> ReverifyMode:
        """Return `reverify_mode`; when it is `unknown` and `verify` takes no session, `stateless`."""
        verify = self.typed_endpoint("/verify")
        undeclared = self.reverify_mode == "unknown"
        # What it cannot reach it cannot depend on.
        if undeclared and verify is not None and not verify.wants_session:
            return "stateless"
        return self.reverify_mode

    def declared_reward_rules(self) -> RewardRules:
        """Return the reward rules; a subclass may override this."""
        return self.reward_rules

    def _check_reward(self, result: Any) -> None:
        """Raise VerifierError for a reward that is not a finite number, or has such a component."""
        refuse_reward(f"{self.name}/verify", reward_problem(result))

    @cached_property
    def _reward_rules(self) -> RewardRules:
        return self.declared_reward_rules()

    def _with_broken_rules(self, result: Any, _session_id: str) -> Any:
        """Return a verify response with the limits of the reward rules, when its reward lies outside
        of them.
        """
        reward, rules = finite_reward(field_of(result, "reward")), self._reward_rules
        if reward is None or rules.allow(reward):
            return result
        fields = fields_of(result) if isinstance(result, BaseModel) else dict(result)
        return {**fields, OUTSIDE_REWARD_RULES: [float(rules.lowest), float(rules.highest)]}
