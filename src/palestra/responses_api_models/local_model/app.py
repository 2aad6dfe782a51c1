"""`local_model`: a small real model on the CPU through llama.cpp. It needs no account and no GPU."""

import os
import secrets
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from palestra.errors import ConfigError
from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig, Upstream
from palestra.responses_api_models.local_model.engine import EngineOrder
from palestra.responses_api_models.local_model.running import (
    EngineTransport,
    RunningEngine,
    require_engine,
)
from palestra.responses_api_models.local_model.weights import find_weights
from palestra.server import EndpointFacts

CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def default_threads() -> int:
    """Return the number of usable processors, at most 4. With more than two, one processor is left
    free.
    """
    processors = len(os.sched_getaffinity(0))
    return min(4, max(min(2, processors), processors - 1))


class LocalModelConfig(ChatModelConfig):
    """The settings of `local_model`."""

    base_url: str | list[str] = ""
    """Must be empty: `start()` chooses a free port."""
    model: str = "smollm2-135m-instruct"
    """The model's name in responses and statistics. The model name in a request is ignored."""
    model_path: str | None = None
    """The path of another GGUF file. The default model's chat template (SmolLM2's ChatML) is used
    for it too."""
    threads: int = Field(default_factory=default_threads, ge=1)
    slots: int = Field(default=8, ge=1)
    """The number of requests generated at once. As many again wait in llama.cpp; more wait in this
    process."""
    context_tokens: int = Field(default=2048, ge=64)
    """The maximum tokens of prompt and answer together, per slot. It also limits the answer's
    length."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    max_output_tokens_default: int = Field(default=256, ge=1)
    """The token limit of requests that set none: a model this small may never stop by itself."""
    verbose: bool = False
    """Whether to show llama.cpp's own log."""
    replace_developer_role_with_system: bool = True

    @model_validator(mode="after")
    def _no_endpoint(self) -> Self:
        if self.base_url:
            raise ConfigError(
                "local_model starts its own endpoint and takes no base_url",
                hint="use vllm_model for an endpoint that is already running",
            )
        return self


class LocalModel(ChatCompletionsServer):
    """A model server that starts llama.cpp in a child process and calls its Chat Completions
    endpoint.
    """

    config: LocalModelConfig

    _engine: RunningEngine | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Set an empty list of endpoints: the endpoint exists only after `start()`."""
        super().model_post_init(context)
        self.use_endpoints(())

    async def start(self) -> None:
        """Start the engine. Raises ConfigError or ServerDied, with a message about what is missing."""
        require_engine()
        config = self.config
        at_once = 2 * config.slots
        # A local password for one run; never written anywhere.
        key = secrets.token_urlsafe(24)
        order = EngineOrder(
            model_path=str(find_weights(config.model_path)),
            model_name=config.model,
            api_key=key,
            context_tokens=config.context_tokens,
            slots=config.slots,
            threads=config.threads,
            connections=at_once,
            parent_pid=os.getpid(),
            chat_template_path=str(CHAT_TEMPLATE),
            verbose=config.verbose,
        )
        engine = await RunningEngine.start(self.name, order, timeout_s=config.start_timeout_s)
        self._engine = engine
        self.use_endpoints((f"{engine.url}/v1",))
        self._upstream = Upstream(
            EngineTransport(
                self.server_client.http,
                engine,
                at_once=at_once,
                max_tokens=config.max_output_tokens_default,
                context_tokens=config.context_tokens,
            ),
            server=self.name,
            model=config.model,
            api_key=key,
            headers=config.default_headers,
            request_timeout_s=config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def stop(self) -> None:
        """Stop the engine."""
        if self._engine is not None:
            await self._engine.stop()

    def facts(self) -> EndpointFacts:
        """Return the model's name and its context length."""
        return EndpointFacts(model=self.config.model, max_model_len=self.config.context_tokens)

    async def check(self) -> str:
        """Ask the engine which models it serves. Before `start()`, check that the package and the
        weights exist.
        """
        if self._engine is None:
            require_engine()
            return f"not started yet; its weights are at {find_weights(self.config.model_path)}"
        return await super().check()
