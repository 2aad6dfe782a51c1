"""`local_vllm_model_proxy`: the vLLM of a `local_vllm_model` of the same fleet, with other settings
for its messages and requests.
"""

from typing import Any, Self

import orjson
from pydantic import PrivateAttr, ValidationError, model_validator

from palestra.config import ServerType
from palestra.errors import ConfigError, InfraError, excerpt, from_body
from palestra.responses_api_models.local_vllm_model.app import (
    INNER_CONFIG,
    EngineModel,
    InnerVLLMConfig,
)
from palestra.responses_api_models.vllm_model.app import VLLMModelConfig
from palestra.server import EndpointFacts, ModelReference


def _json(text: str) -> Any:
    """Return the JSON value in `text`; None when it is not JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None


class LocalVLLMModelProxyConfig(VLLMModelConfig):
    """The settings of `local_vllm_model_proxy`."""

    model_server: ModelReference
    """The `local_vllm_model` whose vLLM is used."""
    base_url: str | list[str] = ""
    """Must be empty: it is that of `model_server`."""
    model: str = ""
    """The model's name in requests to vLLM. Empty: the one that `model_server` loads."""

    @model_validator(mode="after")
    def _no_endpoint(self) -> Self:
        if self.base_url:
            raise ConfigError(
                "local_vllm_model_proxy uses the endpoint of its model_server and takes no base_url",
                hint="use vllm_model for an endpoint that is already running",
            )
        return self


class LocalVLLMModelProxy(EngineModel):
    """A model server in front of the vLLM that another server of the fleet starts."""

    config: LocalVLLMModelProxyConfig

    _engine: InnerVLLMConfig | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Take the model's name from `model_server` when the settings have none.

        Raises ConfigError: `model_server` is not a `local_vllm_model`.
        """
        settings = self._settings_of_server()
        if not self.config.model:
            self.config = self.config.model_copy(update={"model": str(settings.get("model", ""))})
        super().model_post_init(context)

    def _settings_of_server(self) -> dict[str, Any]:
        name = self.config.model_server.name
        block = self.server_client.tree.get(name) or {}
        implementations = dict(block.get(ServerType.MODEL) or {})
        if implementations and "local_vllm_model" not in implementations:
            raise ConfigError(
                f"{self.name}: model_server is {name}, a {', '.join(implementations)}, and "
                "local_vllm_model_proxy uses the vLLM of a local_vllm_model",
                hint="for another model server, use vllm_model with its base_url",
            )
        return dict(implementations.get("local_vllm_model") or {})

    async def engine(self) -> InnerVLLMConfig:
        """Ask `model_server` how its vLLM is reached, which waits until vLLM answers.

        Raises `CallError`: that server does not answer.
        """
        if self._engine is None:
            name = self.config.model_server.name
            reply = await self.server_client.get(name, INNER_CONFIG, stateless=True)
            text = await reply.text()
            try:
                engine = InnerVLLMConfig.model_validate_json(text)
            except ValidationError as error:
                failure = from_body(_json(text)) or InfraError(
                    f"{name}{INNER_CONFIG} answered {reply.status}: {excerpt(text)}"
                )
                raise failure from error
            self.use_engine(engine)
            self._engine = engine
        return self._engine

    def facts(self) -> EndpointFacts:
        """Return what is known about vLLM, which is only the model's name before it answers."""
        if not self._base_urls:
            return EndpointFacts(model=self.config.model)
        return super().facts()
