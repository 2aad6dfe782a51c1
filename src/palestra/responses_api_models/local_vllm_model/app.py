"""`local_vllm_model`: a vLLM that this server starts on its own machine, and the Responses API in
front of it.
"""

import asyncio
import logging
import secrets
from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from fastapi import FastAPI
from pydantic import BaseModel, Field, PrivateAttr, model_validator

from palestra.errors import ConfigError, InfraError
from palestra.responses_api_models.chat import Upstream
from palestra.responses_api_models.local_servers import (
    READY_TIMEOUT_S,
    VLLMInstallation,
    find_vllm,
    serve_vllm,
)
from palestra.responses_api_models.local_vllm_model.engine import (
    engine_settings,
    require_machine,
    variables_of,
)
from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.schema import (
    ChatCompletion,
    ChatCreateParams,
    Response,
    ResponseCreateParams,
)
from palestra.server import EndpointFacts, Session
from palestra.settings import VLLMServer

logger = logging.getLogger("palestra.local_vllm_model")

INNER_CONFIG: Final = "/get_inner_vllm_config"


class InnerVLLMConfig(BaseModel):
    """How the started vLLM is reached."""

    base_url: str
    api_key: str
    model: str


class LocalVLLMModelConfig(VLLMModelConfig):
    """The settings of `local_vllm_model`."""

    base_url: str | list[str] = ""
    """Must be empty: `start()` chooses a free port."""
    model: str
    """The model that vLLM loads: a folder, or a name on the Hugging Face hub."""
    vllm_serve_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of vLLM's command line, with underscores: `tensor_parallel_size: 2`."""
    vllm_serve_env_vars: dict[str, Any] = Field(default_factory=dict)
    """Environment variables of vLLM."""
    hf_home: str | None = None
    """The folder for models from the hub. None: the one that the hub's library chooses."""
    python: str | None = None
    """The Python that has vLLM. None: this one, else the one that `make test-vllm` installs."""
    ready_timeout_s: float = Field(default=READY_TIMEOUT_S, gt=0)
    """The seconds that vLLM may take to load the model."""
    log_path: Path | None = None
    """A file for all that vLLM prints. None: only its last lines are kept."""
    debug: bool = False
    """Whether to log the progress of vLLM's start as warnings, which are always shown."""

    @model_validator(mode="after")
    def _no_endpoint(self) -> Self:
        if self.base_url:
            raise ConfigError(
                "local_vllm_model starts its own endpoint and takes no base_url",
                hint="use vllm_model for an endpoint that is already running",
            )
        return self


class EngineModel(VLLMModel):
    """The base of a model server whose vLLM is reached only some time after the start."""

    def model_post_init(self, context: Any, /) -> None:
        """Set an empty list of endpoints: the endpoint is known later."""
        super().model_post_init(context)
        self.use_endpoints(())

    @abstractmethod
    async def engine(self) -> InnerVLLMConfig:
        """Wait until vLLM answers, and return how it is reached."""

    def use_engine(self, engine: InnerVLLMConfig) -> None:
        """Send requests to `engine` from now on."""
        self.use_endpoints((engine.base_url,))
        self._upstream = Upstream(
            self.server_client.http,
            server=self.name,
            model=self.config.model,
            api_key=engine.api_key,
            headers=self.config.default_headers,
            request_timeout_s=self.config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return one model turn, once vLLM answers."""
        await self.engine()
        return await super().responses(body, session)

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """Return one chat completion, once vLLM answers."""
        await self.engine()
        return await super().chat_completions(body, session)

    async def list_models(self) -> list[str]:
        """Return the models that vLLM lists, once it answers."""
        await self.engine()
        return await super().list_models()

    async def check(self) -> str:
        """Wait until vLLM answers, and return what it serves and can do."""
        await self.engine()
        return await super().check()


class LocalVLLMModel(EngineModel):
    """A model server that starts vLLM in a child process and calls its Chat Completions endpoint."""

    config: LocalVLLMModelConfig

    _ready: "asyncio.Future[InnerVLLMConfig] | None" = PrivateAttr(default=None)
    _serving: "asyncio.Task[None] | None" = PrivateAttr(default=None)

    async def start(self) -> None:
        """Begin to start vLLM, and return: loading a model takes minutes. Requests wait for it.

        Raises ConfigError: this machine lacks vLLM or a GPU, or a setting cannot work.
        """
        await super().start()
        config = self.config
        server = engine_settings(
            config.model,
            config.vllm_serve_kwargs,
            api_key=config.api_key.get_secret_value() or secrets.token_urlsafe(24),
            python=config.python,
        )
        installed = await asyncio.to_thread(
            require_machine, self.name, partial(find_vllm, self.config.python)
        )
        self._ready = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(
            self._serve(server, installed), name=f"vllm of {self.name}"
        )

    async def _serve(self, server: VLLMServer, installed: VLLMInstallation) -> None:
        """Run vLLM until this task is cancelled or vLLM ends. An error goes to those who wait."""
        assert self._ready is not None  # noqa: S101  # for the type checker: `start` made it
        config = self.config
        token = self.server_client.tree.get("hf_token")
        try:
            async with serve_vllm(
                server,
                self.server_client.http,
                report=self._report,
                vllm=installed,
                ready_timeout_s=config.ready_timeout_s,
                log_path=config.log_path,
                variables=variables_of(
                    config.vllm_serve_env_vars,
                    hf_home=config.hf_home,
                    hf_token=str(token) if token else None,
                ),
            ) as serving:
                engine = InnerVLLMConfig(
                    base_url=serving.base_url, api_key=server.api_key, model=serving.model
                )
                self.use_engine(engine)
                self._ready.set_result(engine)
                await serving.until_ended()
        except Exception as error:  # whatever it is, requests must not wait for ever
            logger.error("%s: vLLM has stopped: %s", self.name, error)  # noqa: TRY400  # the message says it all
            if self._ready.done():
                self._ready = asyncio.get_running_loop().create_future()
            self._ready.set_exception(error)
            self._ready.exception()  # read once: asyncio warns of errors that nobody reads
        finally:
            self._ready.cancel()

    def _report(self, line: str) -> None:
        logger.log(
            logging.WARNING if self.config.debug else logging.INFO, "%s: %s", self.name, line
        )

    async def engine(self) -> InnerVLLMConfig:
        """Wait until vLLM answers, and return how it is reached.

        Raises ServerDied: vLLM ended. RunFailed: it did not answer in time.
        """
        if self._ready is None:
            raise InfraError(f"{self.name} is not started, so it has no vLLM")
        return await asyncio.shield(self._ready)

    async def stop(self) -> None:
        """Stop vLLM."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving})
        await super().stop()

    def facts(self) -> EndpointFacts:
        """Return what is known about vLLM, which is only the model's name before it answers."""
        if not self._base_urls:
            return EndpointFacts(model=self.config.model)
        return super().facts()

    async def check(self) -> str:
        """Wait until vLLM answers, and return what it serves. Before `start()`, check that this
        machine has vLLM, and the GPU that it needs.
        """
        if self._ready is None:
            find = partial(find_vllm, self.config.python)
            installed = await asyncio.to_thread(require_machine, self.name, find)
            return f"not started yet; vLLM {installed.version} is installed"
        return await super().check()

    def setup_webserver(self) -> FastAPI:
        """Return the app, with `GET /get_inner_vllm_config` added."""
        app = super().setup_webserver()
        app.add_api_route(
            INNER_CONFIG, self.engine, methods=["GET"], response_model=InnerVLLMConfig
        )
        return app


__all__ = ["INNER_CONFIG", "EngineModel", "InnerVLLMConfig", "LocalVLLMModel"]
