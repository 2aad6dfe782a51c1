"""`VerifiersAgent`: one rollout of an environment of the `verifiers` library.

The library's environment is agent, tools and verifier in one: it is given the row and a client
that asks our model server, and its rubric gives the reward. So there is no resources server here.
"""

import asyncio
import contextlib
import math
import signal
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from pydantic import Field

from palestra.config import ServerType
from palestra.errors import ConfigError, EnvironmentFault, VerifierError
from palestra.metrics import aggregate_metrics
from palestra.responses_api_agents.verifiers_agent.conversion import (
    input_of,
    response_of,
    sampling_of,
)
from palestra.responses_api_agents.verifiers_agent.rows import ROW_FIELD
from palestra.schema import (
    AggregateMetrics,
    AggregateMetricsRequest,
    JsonDict,
    RunRequest,
    VerifyResponse,
    WireModel,
)
from palestra.server import Endpoint, Server, ServerConfig, ServerReference

_OF_THE_MODEL = frozenset({"EmptyModelResponseError", "InvalidModelResponseError"})
"""Errors of a rollout that are the model's answer, and scored as that."""


class VerifiersAgentConfig(ServerConfig):
    """Settings of the agent."""

    model_server: ServerReference
    """The model that answers as the policy."""

    env_id: str
    """The environment's id: the name of an installed module that has `load_environment`."""

    env_args: JsonDict = Field(default_factory=dict)
    """Arguments of its `load_environment`."""


class VerifiersTask(WireModel):
    """What of a row the environment is given, besides the prompt."""

    example_id: int = 0
    answer: Any = None
    info: Any = None


class VerifiersRunRequest(RunRequest):
    """A row, as the agent's `rows` module writes it."""

    verifiers: VerifiersTask = Field(default_factory=VerifiersTask, alias=ROW_FIELD)


class VerifiersAgent(Server):
    """See the module's docstring."""

    config: VerifiersAgentConfig

    @property
    def palestra_type(self) -> str:
        """It is an agent."""
        return ServerType.AGENT

    async def start(self) -> None:
        """Load the environment, with its dataset where it needs one.

        Here on the loop, which nobody else waits for yet: the library sets signal handlers, which
        it may only on the main thread. The fleet's own are put back.
        """
        try:
            with _own_signal_handlers():
                self._environment  # noqa: B018  # made on its first use
        except ModuleNotFoundError as error:
            if error.name != "verifiers":
                raise
            raise ConfigError(
                "the verifiers agent needs a package that is not installed",
                hint="pip install 'verifiers>=0.3,<0.4'",
            ) from None
        except (ValueError, RuntimeError) as error:
            raise ConfigError(
                f"{self.name}: the verifiers environment {self.config.env_id} cannot be loaded: "
                f"{error}",
                hint="install its package, and check env_args",
            ) from error

    @cached_property
    def _environment(self) -> Any:
        import verifiers  # type: ignore[import-not-found]  # not installed beside our tools

        return verifiers.load_environment(self.config.env_id, **self.config.env_args)

    async def run(self, body: VerifiersRunRequest) -> VerifyResponse:
        """One rollout, scored by the environment's rubric. Raises `CallError` when there is none."""
        from palestra.responses_api_agents.verifiers_agent.client import PeerClient

        model = self.server_client.peer(self.config.model_server.name)
        params = body.responses_create_params
        client = PeerClient(model)
        output = await self._environment.run_rollout(
            input_of(params, body.verifiers.model_dump(exclude_none=True)),
            client,
            model=params.model or self.config.model_server.name,
            sampling_args=sampling_of(params),
        )
        if client.failure is not None:
            raise client.failure
        self._check(output)
        response = response_of(output, model=client.model)
        fields = {**body.__dict__, **(body.model_extra or {})}
        ending = {
            "stop_condition": output.get("stop_condition"),
            "truncated": output["is_truncated"],
        }
        return VerifyResponse.model_validate(
            {
                **{name: value for name, value in output["metrics"].items() if name not in fields},
                **fields,
                **ending,
                "response": response,
                "reward": float(output["reward"]),
            }
        )

    def _check(self, output: Any) -> None:
        """Whether there is a reward to report."""
        error = output.get("error")
        if error is not None and error["error"] not in _OF_THE_MODEL:
            raise EnvironmentFault(
                f"{self.name}: the environment {self.config.env_id} failed: "
                f"{output.get('error_chain') or error['message']}"
            )
        reward = output["reward"]
        if not isinstance(reward, int | float) or not math.isfinite(reward):
            raise VerifierError(f"{self.name}: the environment's reward is {reward!r}")

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Metrics over many rollouts: means, and pass@k, of what the rubric reports."""
        metrics = await asyncio.to_thread(
            partial(
                aggregate_metrics,
                body.verify_responses,
                compute_metrics=_none,
                get_key_metrics=_means,
            )
        )
        return AggregateMetrics.model_validate(metrics)

    def routes(self) -> list[Endpoint]:
        """Run and aggregate: the loop alone, without its environment, there is not."""
        return [
            self.endpoint(self.run, "/run"),
            self.endpoint(self.aggregate_metrics, "/aggregate_metrics"),
        ]


@contextlib.contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Undo what the body does to the handlers of the signals that end a process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _none(tasks: Any) -> JsonDict:
    del tasks
    return {}


def _means(agent_metrics: Any) -> JsonDict:
    return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}
