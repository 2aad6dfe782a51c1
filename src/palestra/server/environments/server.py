"""The resources server of an environment in one file.

A rollout with state has an object from `/seed_session` (or `/reset`) to `/verify`. It is in the
session, so with `isolated` in the worker process of the session. An environment that only verifies
with a plain function needs no session: any free worker process makes an object and calls `verify`.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from pydantic import PrivateAttr

from palestra.config import ServerType
from palestra.errors import NoSession
from palestra.sandbox import Sandbox
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EXTRACTED_ANSWER,
    JUDGE_EVALUATIONS,
    REWARD_COMPONENTS,
    UNUSED_WEIGHTS,
    AggregateMetrics,
    AggregateMetricsRequest,
    FunctionCall,
    JsonObject,
    Response,
    SeedSessionRequest,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    short_repr,
)
from palestra.server.agent import ServerReference
from palestra.server.author_calls import VERIFY as VERIFY_PATH
from palestra.server.author_calls import Aside, AuthorMethod, is_authors_file
from palestra.server.author_code import code_of, function_and_line
from palestra.server.authors_errors import AWAIT, UnfitResult, unawaited_call
from palestra.server.endpoints import Endpoint
from palestra.server.environments.author_class import FILLED, REPLY, START, VERIFY, is_async
from palestra.server.environments.definition import EnvironmentDefinition
from palestra.server.environments.interface import (
    EnvironmentConfig,
    Rollout,
    Seeded,
    VerifyCalls,
)
from palestra.server.environments.parameters import ANSWER, RESPONSE, TASK, Parameters
from palestra.server.environments.rewards import (
    REWARD,
    Verdict,
    unused_weights,
    verdict_of,
    without_component,
)
from palestra.server.environments.row_fields import explained_fields
from palestra.server.environments.services import EnvironmentJudge, RolloutServices
from palestra.server.environments.task import RNG_SEED, own_copy, read_only, task_fields
from palestra.server.environments.tool_methods import with_session
from palestra.server.judging.judge import Judge
from palestra.server.resources_server import ResourcesServer, ReverifyMode
from palestra.server.reward_rules import RewardRules
from palestra.server.sessions import Session
from palestra.server.turns import Opening, Step, StepRequest

logger: Final = logging.getLogger("palestra.server")
POLICY: Final = "policy_model"
"""The model that is the judge when no other one is configured."""
_ROLLOUT: Final = "rollout"
_METHODS: Final = {VERIFY_PATH: VERIFY, "/seed_session": START, "/reset": START, "/step": REPLY}
"""The author's method behind each path of the protocol."""


def _of_answer(body: VerifyRequest) -> dict[str, Any]:
    return {ANSWER: body.response.final_text, RESPONSE: body.response}


class EnvironmentServer(ResourcesServer):
    """The resources server of one `EnvironmentDefinition`; `server_class_of` makes a subclass."""

    config: EnvironmentConfig

    repeatable: ClassVar[bool | None] = True
    """The state of a rollout is its object, and each attempt gets a new one."""

    _palestra_calls: VerifyCalls | None = PrivateAttr(default=None)
    _palestra_in_worker: bool = PrivateAttr(default=False)

    def definition(self) -> EnvironmentDefinition:
        """Return the environment that this class serves."""
        raise NotImplementedError

    def environment_path(self) -> Path | None:
        """Return the file of the environment, so that other processes can load it; None without
        one.
        """
        return None

    # Where the author's methods run

    def verifies_apart(self) -> bool:
        """Whether `verify` can run in any free worker process, without a session."""
        env = self.definition()
        apart = env.cls.isolated and not env.has_state and env.is_blocking()
        return apart and self.environment_path() is not None

    def verify_with(self, calls: VerifyCalls) -> None:
        """Use `calls` to run `verify` in other processes."""
        self._palestra_calls = calls

    def wants_isolation(self) -> bool:
        """Whether the rollouts' objects must be in worker processes."""
        env = self.definition()
        return env.cls.isolated and env.has_state and env.is_blocking()

    def run_in_worker(self) -> None:
        """Call plain methods directly: this process is a worker, which can be killed."""
        self._palestra_in_worker = True

    async def start_workers(self) -> None:
        """Start one worker now, so that an import error is raised before any row runs."""
        await super().start_workers()
        if self._palestra_calls is not None:
            await self._palestra_calls.start()

    async def end_workers(self) -> None:
        """End the worker processes."""
        await super().end_workers()
        calls, self._palestra_calls = self._palestra_calls, None
        if calls is not None:
            await calls.close()

    async def stop(self) -> None:
        """End the sandbox, if there is one."""
        if "_sandbox" in self.__dict__:
            await self._sandbox.aclose()

    # Endpoints

    async def seed_session(self, body: SeedSessionRequest, session: Session) -> Seeded:
        """Make the rollout's object, and call `start`."""
        env = self.definition()
        if env.has_state:
            session.state[_ROLLOUT] = await self._started_rollout(body)
        return Seeded(takes_turns=env.takes_turns, max_turns=env.cls.max_turns)

    async def reset(self, body: SeedSessionRequest, session: Session) -> Opening:
        """Do the same as `seed_session`, for agents that begin with `/reset`."""
        await self.seed_session(body, session)
        return Opening()

    async def step(self, body: StepRequest, session: Session) -> Step:
        """Return what the user says next, from `reply`."""
        rollout = self._rollout_of(session, "/step")
        offered = {ANSWER: body.response.final_text, RESPONSE: body.response}
        observation = await self._call(rollout, REPLY, offered)
        if observation is None:
            return Step(terminated=True)
        self._refuse_coroutine(observation, REPLY)
        if isinstance(observation, bool) or not isinstance(observation, str | int | float):
            raise UnfitResult(
                f"returned {short_repr(observation)}, which is not a text",
                hint="return what the user says, or None at the end of the conversation",
                function=function_and_line(self.definition().plain(REPLY)),
            )
        return Step(observation=str(observation))

    def _refuse_coroutine(self, returned: Any, name: str) -> None:
        """Raise UnfitResult when the author's method `name` returned a call that nobody awaited."""
        if call := unawaited_call(returned):
            function = function_and_line(self.definition().plain(name))
            raise UnfitResult(f"returned {call}", hint=AWAIT, function=function)

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        """Score the trajectory with the author's `verify`."""
        if self._palestra_calls is not None:
            return await self._verified_apart(body, self._palestra_calls)
        rollout = cast("Rollout | None", session.state.get(_ROLLOUT))
        if rollout is None:
            self._refuse_lost_state(body)
            rollout = await self._started_rollout(body)
        returned = await self._call(rollout, VERIFY, _of_answer(body))
        definition = self.definition()
        verdict = verdict_of(returned, definition.cls.weights, f"{self.name}{VERIFY_PATH}")
        evaluations = rollout.hearing.evaluations
        judged = {JUDGE_EVALUATIONS: evaluations} if evaluations else {}
        return self._scored(body, replace(verdict, used_seed=rollout.services.used_seed), **judged)

    async def _verified_apart(self, body: VerifyRequest, calls: VerifyCalls) -> VerifyResponse:
        row = task_fields(body.model_extra or {})
        arguments = self._arguments(VERIFY, row, _of_answer(body))
        seed = str(getattr(body, RNG_SEED, "") or "")
        sent_row = {} if self.definition().is_function else row
        return self._scored(body, await calls.verdict(sent_row, arguments, seed))

    def _scored(self, body: VerifyRequest, verdict: Verdict, **reported: Any) -> VerifyResponse:
        if verdict.components is not None:
            reported[REWARD_COMPONENTS] = dict(verdict.components)
        if unused := without_component(self.definition().cls.weights, verdict.components or ()):
            reported[UNUSED_WEIGHTS] = unused
        if verdict.used_seed:
            reported[RNG_SEED] = verdict.used_seed
        return self.reply(
            body, verdict.reward, **reported, **{EXTRACTED_ANSWER: body.response.final_text}
        )

    def _aggregated(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Return the metrics of a run, and warn of weights that had no effect in it."""
        weights = self.definition().cls.weights
        if unused := unused_weights(self.name, weights, body.verify_responses):
            logger.warning("%s: %s", self.name, unused)
        return super()._aggregated(body)

    def _refuse_lost_state(self, body: VerifyRequest) -> None:
        """Raise NoSession when the trajectory has changed a state that is not here."""
        called = any(isinstance(item, FunctionCall) for item in body.response.output)
        if self.definition().takes_turns or (called and self.definition().tools):
            raise NoSession(
                f"{self.name}{VERIFY_PATH}: the state of this rollout does not exist here",
                hint="call /seed_session first, in the same session",
            )

    def routes(self) -> list[Endpoint]:
        """Return the endpoints of every environment; with `reply` also `/reset` and `/step`."""
        turns = (self.reset, "/reset"), (self.step, "/step")
        turn_endpoints = [self.endpoint(*turn) for turn in turns if self.definition().takes_turns]
        return [*super().routes(), *turn_endpoints]

    def endpoint(self, method: Callable[..., Any], path: str, **kwargs: Any) -> Endpoint:
        """Make an endpoint. It blocks when the author's function behind it is a plain function."""
        function = self._author_function(path)
        if function is not None:
            kwargs["blocking"] = not is_async(function)
        return super().endpoint(method, path, **kwargs)

    def _author_function(self, path: str) -> Callable[..., Any] | None:
        env = self.definition()
        name = _METHODS.get(path)
        if name is not None:
            return cast("Callable[..., Any]", env.plain(name)) if env.has(name) else None
        return env.tools.get(path.removeprefix("/"))

    def palestra_author_method(
        self,
        method: Callable[..., Any] | None,  # noqa: ARG002  # ours, around the author's
        path: str,
    ) -> AuthorMethod | None:
        """Return the author's function behind `path`; None when there is none, or when it runs in
        other processes.
        """
        function = self._author_function(path)
        code = None if function is None else code_of(function)
        if function is None or code is None or not is_authors_file(code.co_filename):
            return None
        if path == VERIFY_PATH and self.verifies_apart():
            return None
        return AuthorMethod(function, self, path)

    def palestra_label(self, path: str) -> str:
        """Return `path`, with the name of the author's method where it is another one."""
        name = _METHODS.get(path, "")
        return f"{path} ({name})" if name and name != path[1:] else path

    @cached_property
    def _tool_methods(self) -> dict[str, Any]:
        return {
            name: with_session(function, partial(self._tool, name))
            for name, function in self.definition().tools.items()
        }

    async def _tool(self, name: str, session: Session, arguments: Mapping[str, Any]) -> Any:
        rollout = self._rollout_of(session, f"/{name}")
        with explained_fields(rollout.environment, rollout.row):
            return await self._run(getattr(rollout.environment, name), arguments)

    # The author's code

    async def _started_rollout(self, body: WireModel) -> Rollout:
        """Return the object of a new rollout, after its `start`."""
        row = task_fields(body.model_extra or {})
        hearing = self._judge.hearing(body)
        services = RolloutServices(
            task=read_only(row),
            make_judge=lambda: EnvironmentJudge(self.config, hearing),
            make_sandbox=lambda: self._sandbox,
            stored_seed=str(getattr(body, RNG_SEED, "") or ""),
        )
        env = self.definition()
        rollout = Rollout(env.made(services), services, hearing, row)
        if env.has(START):
            self._refuse_coroutine(await self._call(rollout, START, {}), START)
        return rollout

    def _rollout_of(self, session: Session, path: str) -> Rollout:
        rollout = session.state.get(_ROLLOUT)
        if not isinstance(rollout, Rollout):
            raise NoSession(
                f"{self.name}{path}: the rollout of this session was not begun",
                hint="call /seed_session first, in the same session",
            )
        return rollout

    async def _call(self, rollout: Rollout, name: str, offered: Mapping[str, Any]) -> Any:
        arguments = self._arguments(name, rollout.row, offered, task=rollout.services.task)
        with explained_fields(rollout.environment, rollout.row, method=name):
            return await self._run(getattr(rollout.environment, name), arguments)

    def _arguments(
        self, name: str, row: JsonObject, offered: Mapping[str, Any], task: JsonObject | None = None
    ) -> dict[str, Any]:
        parameters = self._parameters[name]
        if parameters.asks_for(TASK) and task is None:
            task = read_only(row)
        fields = {key: own_copy(value) for key, value in row.items()}
        return parameters.filled({**fields, TASK: task, **offered})

    @cached_property
    def _parameters(self) -> dict[str, Parameters]:
        env = self.definition()
        return {name: env.parameters(name) for name in FILLED if env.has(name)}

    async def _run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call an author's function with its arguments: plain ones on a thread, or directly in a
        worker.
        """
        if is_async(function) or self._palestra_in_worker:
            result = function(**arguments)
        else:
            result = await self._aside.run(partial(function, **arguments))
        return await result if inspect.isawaitable(result) else result

    @cached_property
    def _aside(self) -> Aside:
        return Aside()

    @cached_property
    def _sandbox(self) -> Sandbox:
        return Sandbox(self.config.sandbox)

    @cached_property
    def _judge(self) -> Judge:
        config = self.config
        if config.judge_model_server is None:
            policy = ServerReference(type=ServerType.MODEL, name=POLICY)
            config = config.model_copy(update={"judge_model_server": policy})
        return Judge(self.server_client, config)

    # What is known of the environment

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the author's right answer to a row."""
        fields = {n: value for n, value in row.items() if n not in {CREATE_PARAMS, AGENT_REF}}
        return self.definition().gold(fields)

    def declared_reward_rules(self) -> RewardRules:
        """Return the environment's reward rules. Limits without a number follow from the weights."""
        cls = self.definition().cls
        return cls.reward_rules.for_weights(
            weight for name, weight in cls.weights.items() if name != REWARD
        )

    def declared_reverify_mode(self) -> ReverifyMode:
        """Return how the state of a stored rollout is made again: by its turns, by its tool calls, or
        by `start` alone.
        """
        env = self.definition()
        if env.takes_turns:
            return "replay_turns"
        return "replay_tools" if env.tools else "stateless"


def server_class_of(
    env: EnvironmentDefinition, path: Path | None = None
) -> type[EnvironmentServer]:
    """Return a server class for one environment. `path`: the file that it was loaded from.

    The settings of the server's instance replace those of `env`.
    """

    class BoundEnvironmentServer(EnvironmentServer):
        @cached_property
        def _configured(self) -> EnvironmentDefinition:
            if not self.config.settings:
                return env
            return EnvironmentDefinition.of(
                env.cls, name=env.name, folder=env.folder, settings=self.config.settings
            )

        def definition(self) -> EnvironmentDefinition:
            return self._configured

        def environment_path(self) -> Path | None:
            return path

    return BoundEnvironmentServer
