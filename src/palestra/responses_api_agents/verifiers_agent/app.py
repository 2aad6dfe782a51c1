"""`VerifiersAgent`: runs one rollout of an environment of the `verifiers` library.

The library's environment is agent, tools and verifier in one. It gets the row and a client that
calls a Palestra model server, and its rubric computes the reward. So this agent needs no resources
server.
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
from palestra.server import Endpoint, ModelReference, Server, ServerConfig

_OF_THE_MODEL = frozenset({"EmptyModelResponseError", "InvalidModelResponseError"})
"""The names of rollout errors caused by the model's answer. Such a rollout is scored, not failed.
"""


class VerifiersAgentConfig(ServerConfig):
    """The settings of `VerifiersAgent`."""

    model_server: ModelReference
    """The model server of the policy."""

    env_id: str
    """The environment's id: the name of an installed module that has `load_environment`."""

    env_args: JsonDict = Field(default_factory=dict)
    """The arguments for the environment's `load_environment`."""


class VerifiersTask(WireModel):
    """The fields of a row that the environment gets besides the prompt."""

    example_id: int = 0
    answer: Any = None
    info: Any = None


class VerifiersRunRequest(RunRequest):
    """A row, as `verifiers_agent.rows` writes it."""

    verifiers: VerifiersTask = Field(default_factory=VerifiersTask, alias=ROW_FIELD)


class VerifiersAgent(Server):
    """An agent that runs environments of the `verifiers` library; see the module's docstring."""

    config: VerifiersAgentConfig

    @property
    def palestra_type(self) -> str:
        """The server type `agent`."""
        return ServerType.AGENT

    async def start(self) -> None:
        """Load the environment, including its dataset if needed.

        Loading runs on the event loop, which serves no requests yet: the library sets signal
        handlers, and Python allows that on the main thread only. Afterwards the fleet's own
        handlers are restored.
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
        """Run one rollout and return the reward of the environment's rubric.

        Raises `CallError`: a model call failed, or there is no valid reward.
        """
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
        """Raise an error when the environment failed or the reward is not a finite number."""
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
        """Return metrics over many rollouts: means and pass@k of the values that the rubric
        reports.
        """
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
        """Return the endpoints `/run` and `/aggregate_metrics`.

        There is no endpoint for the loop alone, because the library's environment contains the
        loop.
        """
        return [
            self.endpoint(self.run, "/run"),
            self.endpoint(self.aggregate_metrics, "/aggregate_metrics"),
        ]


@contextlib.contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM after the `with` block, if the block changed them."""
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
