"""`nemo_gym.base_responses_api_agent`: the base classes of an agent, which runs the loop of a
rollout.
"""

import asyncio
import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Final

from fastapi import Body, FastAPI, Request, Response
from pydantic import Field

from palestra.compat.client import is_observed
from palestra.compat.handlers import like
from palestra.compat.http import get_response_json, raise_for_status
from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.base_resources_server import (
    AggregateMetrics,
    AggregateMetricsRequest,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from palestra.compat.nemo_gym.config_types import BaseRunServerInstanceConfig
from palestra.compat.nemo_gym.global_config import get_first_server_config_dict
from palestra.compat.nemo_gym.rollout_correlation import maybe_rollout_id_from_run_body
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.rollout_prefix import RolloutPrefixLayer
from palestra.compat.servers import BaseServer, SimpleServer
from palestra.observability import (
    ROLLOUT_SEGMENT,
    TOKEN_CAPTURE_SEGMENT,
    apply_rollout_prefix,
    prefixed_path,
    rollout_context,
    rollout_path_prefix,
)
from palestra.schema import JsonDict

RESPONSES_PATH: Final = "/v1/responses"
_PREFIX: Final = f"/{ROLLOUT_SEGMENT}/{{rollout_id}}"


class BaseResponsesAPIAgentConfig(BaseRunServerInstanceConfig):
    """The settings of an agent. Subclass it to add your own fields.

    A top-level key with the name of one of these fields is the default of every agent.
    """

    skip_verification: bool = False
    """Whether a rollout ends without a call of `/verify`, with the reward below."""

    skip_verification_reward: float = Field(default=0.0, allow_inf_nan=False)
    """The reward of every rollout that is not verified."""

    token_id_capture: bool = False
    """Whether the token ids of this agent's model calls are captured, when capture is on."""


class BaseResponsesAPIAgent(BaseServer):
    """The base of an agent: it holds the settings."""

    config: BaseResponsesAPIAgentConfig


class SimpleResponsesAPIAgent(BaseResponsesAPIAgent, SimpleServer):
    """The base class of an agent: `responses` is the loop, `run` calls seed, `responses` and
    verify.
    """

    __server_type__: ClassVar[str] = "responses_api_agents"

    config: BaseResponsesAPIAgentConfig

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints. Override this method to add routes."""
        app = FastAPI(title=self.config.name or type(self).__name__)
        self.setup_session_middleware(app)
        app.add_middleware(RolloutPrefixLayer, routes=app.routes)
        for prefix in ("", _PREFIX, f"{_PREFIX}/{TOKEN_CAPTURE_SEGMENT}"):
            app.post(f"{prefix}{RESPONSES_PATH}")(self.responses)
        app.post("/run")(_in_its_rollout(self.run))
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        return app

    @abstractmethod
    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Work on a task. The output of the returned response is the whole trajectory."""

    @abstractmethod
    async def run(self, body: BaseRunRequest = Body()) -> BaseVerifyResponse:
        """Run one rollout: seed, respond, verify."""

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        """Return metrics over many rollouts.

        They come from the agent's environment; from this class when there is none or
        `compute_metrics` is overridden. Rollouts that were not verified have none.
        """
        if self.config.skip_verification:
            message = f"{self.config.name} skips verification: there are no metrics"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return AggregateMetrics()
        environment = getattr(self.config, "resources_server", None)
        has_own_metrics = type(self).compute_metrics is not SimpleResponsesAPIAgent.compute_metrics
        if environment is None or has_own_metrics:
            return await asyncio.to_thread(
                aggregated, body.verify_responses, self.compute_metrics, self.get_key_metrics
            )
        reply = await self.server_client.post(
            server_name=environment.name, url_path="/aggregate_metrics", json=body
        )
        await raise_for_status(reply)
        return AggregateMetrics.model_validate(await get_response_json(reply))

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Return your own metrics; none by default. An override replaces the environment's metrics."""
        del tasks
        return {}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Return the few metrics to show first; by default every mean."""
        return {name: value for name, value in agent_metrics.items() if name.startswith("mean/")}

    def rollout_id_from_run(self, body: Any) -> str | None:
        """Return the id under which the model calls of this run are captured; None without capture.

        `body`: the body of `/run`.
        """
        if not (self._model_call_capture_enabled() or self._token_id_capture_enabled()):
            return None
        return maybe_rollout_id_from_run_body(body)

    def url_path_for_run(self, url_path: str, body: Any) -> str:
        """Return `url_path` with the capture prefix of this run; unchanged without capture."""
        rollout_id = self.rollout_id_from_run(body)
        token_capture = self._token_id_capture_enabled()
        return f"{rollout_path_prefix(rollout_id, token_capture=token_capture)}{url_path}"

    def url_path_for_request(self, url_path: str, request: Any) -> str:
        """Return `url_path` with the capture prefix with which `request` came; unchanged without
        one.
        """
        params = getattr(request, "path_params", None)
        rollout_id = params.get("rollout_id") if isinstance(params, Mapping) else None
        if not isinstance(rollout_id, str):
            return url_path
        path = getattr(getattr(request, "url", None), "path", None)
        came_with = prefixed_path(path) if isinstance(path, str) else None
        token_capture = came_with is not None and came_with.token_capture
        return f"{rollout_path_prefix(rollout_id, token_capture=token_capture)}{url_path}"

    def base_url_for_run(self, base_url: str, body: Any) -> str:
        """Return `base_url`, a server's root, with the capture prefix of this run."""
        rollout_id = self.rollout_id_from_run(body)
        token_capture = self._token_id_capture_enabled()
        return apply_rollout_prefix(base_url, rollout_id, token_capture=token_capture)

    def resolve_model_base_url(self, model_server_name: str, rollout_id: str | None = None) -> str:
        """Return the base URL of a model server for an OpenAI client: it ends in `/v1`.

        With `rollout_id`, the calls are captured as those of this rollout.
        """
        settings = get_first_server_config_dict(
            self.server_client.global_config_dict, model_server_name
        )
        root = self.server_client._build_server_base_url(settings)  # noqa: SLF001 - authors call it
        token_capture = self._token_id_capture_enabled()
        return f"{apply_rollout_prefix(root, rollout_id, token_capture=token_capture)}/v1"

    def _model_call_capture_enabled(self) -> bool:
        return is_observed(getattr(self.server_client, "global_config_dict", None))

    def _token_id_capture_enabled(self) -> bool:
        tree = getattr(self.server_client, "global_config_dict", None)
        capture = tree.get("token_id_capture") if isinstance(tree, Mapping) else None
        if not isinstance(capture, Mapping) or not capture.get("enabled"):
            return False
        return bool(capture.get("all_agents") or self.config.token_id_capture)


def with_fleet_defaults(config: Any, tree: Mapping[Any, Any]) -> Any:
    """Return an agent's settings with the top-level keys of `tree` for what they do not set; other
    servers' settings unchanged.
    """
    if not isinstance(config, BaseResponsesAPIAgentConfig):
        return config
    own_fields = BaseResponsesAPIAgentConfig.__annotations__
    defaults = {
        name: tree[name]
        for name in own_fields
        # The top-level `token_id_capture` is usually the mapping that turns capture on.
        if name not in config.model_fields_set and isinstance(tree.get(name), bool | int | float)
    }
    return config.model_copy(update=defaults) if defaults else config


def _in_its_rollout(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler `run` with its body's rollout as the current one."""
    if not inspect.iscoroutinefunction(run):
        return run

    @like(run)
    async def run_rollout(*args: Any, **kwargs: Any) -> Any:
        ids = (maybe_rollout_id_from_run_body(value) for value in (*args, *kwargs.values()))
        rollout_id = next((value for value in ids if value), None)
        with rollout_context(rollout_id) if rollout_id else nullcontext():
            return await run(*args, **kwargs)

    return run_rollout


__all__ = [
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseResponsesAPIAgent",
    "BaseResponsesAPIAgentConfig",
    "BaseRunRequest",
    "BaseVerifyRequest",
    "BaseVerifyResponse",
    "Body",
    "FastAPI",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "SimpleResponsesAPIAgent",
]
