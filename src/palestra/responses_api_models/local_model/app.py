"""`local_model`: a small real model on the CPU through llama.cpp; no account, no GPU."""

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
    """The processors we may use, one left free where there are more than two, and at most 4."""
    processors = len(os.sched_getaffinity(0))
    return min(4, max(min(2, processors), processors - 1))


class LocalModelConfig(ChatModelConfig):
    """Settings of `local_model`."""

    base_url: str | list[str] = ""
    """Not a setting here: `start()` finds a free port."""
    model: str = "smollm2-135m-instruct"
    """The name in answers and statistics; whatever a request names, this model answers."""
    model_path: str | None = None
    """A GGUF file of yours. It is rendered with SmolLM2's ChatML, as the default model is."""
    threads: int = Field(default_factory=default_threads, ge=1)
    slots: int = Field(default=8, ge=1)
    """Requests generated at once. As many again are sent and wait in llama.cpp; the rest here."""
    context_tokens: int = Field(default=2048, ge=64)
    """Prompt and answer together, for each slot. No request gets a longer answer than that."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    max_output_tokens_default: int = Field(default=256, ge=1)
    """For requests that name no limit: a model this small may never come to an end by itself."""
    verbose: bool = False
    """Show llama.cpp's own log."""
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
    """Starts llama.cpp in a child process and speaks Chat Completions with it."""

    config: LocalModelConfig

    _engine: RunningEngine | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """There is no endpoint until `start()`."""
        super().model_post_init(context)
        self.use_endpoints(())

    async def start(self) -> None:
        """Start the engine. Raises ConfigError or ServerDied, saying what is missing."""
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
        """What it was started with."""
        return EndpointFacts(model=self.config.model, max_model_len=self.config.context_tokens)

    async def check(self) -> str:
        """Ask the engine; before it was started, whether all that it needs is there."""
        if self._engine is None:
            require_engine()
            return f"not started yet; its weights are at {find_weights(self.config.model_path)}"
        return await super().check()
