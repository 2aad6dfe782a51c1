"""`ChatCompletionsServer`: a Responses API server in front of any Chat Completions endpoint."""

import asyncio
from collections.abc import Sequence
from functools import cached_property, partial
from typing import ClassVar, Literal, Self

from pydantic import (
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

from palestra.config import nearest
from palestra.errors import CallError, ConfigError, Hopeless, KnownCause, ModelNotServed
from palestra.responses_api_models.chat.endpoint_config import EndpointConfig, refuse_stream
from palestra.responses_api_models.chat.endpoints import Endpoints, ProviderEndpoint
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.request import (
    json_setting,
    template_kwargs,
    to_chat_request,
)
from palestra.responses_api_models.chat.response import overflow_response, to_response
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.chat.unread import as_it_came, overflow_completion
from palestra.responses_api_models.chat.upstream import Answered, Upstream
from palestra.schema import (
    ChatCompletion,
    ChatCreateParams,
    JsonDict,
    JsonObject,
    Response,
    ResponseCreateParams,
    decode_completion,
    to_plain,
)
from palestra.server import EndpointFacts, ModelServer, Session, without_tokens
from palestra.transport import ConnectionFailed


class ChatModelConfig(EndpointConfig):
    """The settings of a model server in front of Chat Completions endpoints."""

    base_url: str | list[str]
    """The URL of the endpoint, including `/v1`. With several URLs, a session stays on one endpoint
    while that endpoint answers."""
    api_key: SecretStr = SecretStr("")
    """The API key, sent as a bearer token; empty: no key is sent."""
    model: str
    """The name under which the endpoint serves the model. The model name in a request is ignored.
    """
    has_token_ids: ClassVar[bool] = False
    """Whether this kind of model server can return token ids."""
    return_token_id_information: bool = False
    """Must be false: only `vllm_model` returns token ids."""
    is_responses_native: bool = False
    """Must be false. For an endpoint that implements the Responses API itself, use `openai_model`.
    """
    uses_reasoning_parser: bool = False
    """Whether the endpoint runs a reasoning parser and returns reasoning in `reasoning_content`."""
    uses_interleaved_reasoning: bool = True
    """Whether earlier turns are sent with their reasoning. Only used with a reasoning parser."""
    replace_developer_role_with_system: bool = False
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The endpoint's parameter for a row's `max_output_tokens`."""
    sequential_reasoning_allowed: bool = True
    """Whether a history may have two reasoning items in a row. If false, such rows are refused."""
    chat_template_kwargs: JsonDict | None = None
    sampling_overrides: JsonDict | None = None
    """Fields of every request, such as `temperature`, whatever the row says."""

    @field_validator("base_url")
    @classmethod
    def _some_url(cls, value: str | list[str]) -> str | list[str]:
        if not value or not all([value] if isinstance(value, str) else value):
            raise ValueError("needs at least one URL, such as http://127.0.0.1:8000/v1")
        return value

    @model_validator(mode="after")
    def _only_what_there_is(self) -> Self:
        if self.return_token_id_information and not self.has_token_ids:
            raise ConfigError(
                "this model server returns no token ids, so return_token_id_information cannot be true",
                hint="set return_token_id_information: false, or use vllm_model",
                cause=KnownCause.ENDPOINT_LACKS_SETTING,
            )
        if self.is_responses_native:
            raise ConfigError(
                "is_responses_native cannot be true for a model server of Chat Completions",
                hint="use openai_model, which passes the Responses API through",
                cause=KnownCause.ENDPOINT_LACKS_SETTING,
            )
        return self

    @field_validator("sampling_overrides")
    @classmethod
    def _only_settings(cls, value: JsonDict | None) -> JsonDict | None:
        if refused := sorted({"model", "messages", "tools"} & set(value or ())):
            raise ConfigError(f"sampling_overrides cannot have {', '.join(refused)}")
        return refuse_stream(value, setting="sampling_overrides")

    def conversion(self) -> ConversionSettings:
        """Return the settings that control the conversion of messages."""
        return ConversionSettings(
            uses_reasoning_parser=self.uses_reasoning_parser,
            uses_interleaved_reasoning=self.uses_interleaved_reasoning,
            replace_developer_role_with_system=self.replace_developer_role_with_system,
            max_tokens_parameter=self.max_tokens_parameter,
            sequential_reasoning_allowed=self.sequential_reasoning_allowed,
            chat_template_kwargs=self.chat_template_kwargs or {},
            extra_body=self.extra_body or {},
            sampling_overrides=self.sampling_overrides or {},
        )


class ChatCompletionsServer(ModelServer):
    """A model server that converts Responses API requests to chat completions at `config.base_url`.

    A subclass that starts its own endpoint calls `use_endpoints` in `start()`.
    """

    config: ChatModelConfig
    key_header: ClassVar[str] = "authorization"
    """The header for the API key. `authorization` carries it as a bearer token, any other header as
    plain text."""
    chat_path: ClassVar[str] = "/chat/completions"
    """The path of Chat Completions below a base URL."""

    _watching: asyncio.Task[None] | None = PrivateAttr(default=None)

    # Cached properties, as private attributes of a pydantic model cost microseconds a read.
    @cached_property
    def _base_urls(self) -> tuple[str, ...]:
        return base_urls(self.config.base_url)

    @cached_property
    def _model_endpoints(self) -> Endpoints:
        return Endpoints(self._base_urls, server=self.name)

    def use_endpoints(self, urls: Sequence[str]) -> None:
        """Send requests to `urls` from now on. For a subclass that starts its own endpoints."""
        self._base_urls = tuple(urls)
        self._model_endpoints = Endpoints(self._base_urls, server=self.name)

    @cached_property
    def _query(self) -> str:
        """The query string after the path of every request, including its question mark."""
        return ""

    @cached_property
    def _conversion(self) -> ConversionSettings:
        return self.config.conversion()

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(
            self.server_client.http,
            server=self.name,
            model=self.config.model,
            api_key=self.config.api_key.get_secret_value(),
            key_header=self.key_header,
            headers=self.config.default_headers,
            request_timeout_s=self.config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return one model turn. Raises `CallError`: the endpoint refuses the request."""
        model = self.config.model
        request = to_chat_request(body, model=model, settings=self._conversion)
        path = self.chat_path + self._query
        url, answer = await self._upstream.post_to(
            self._model_endpoints, path, request, session=session.id
        )
        completion = self._upstream.answers.read(url, answer, decode_completion)
        if isinstance(completion, ContextOverflow):
            return overflow_response(body, model=model, overflow=completion)
        return to_response(completion, body, model=model, settings=self._conversion)

    async def post(self, path: str, body: JsonObject, session: Session) -> Answered:
        """POST to the session's endpoint, or to another one if it does not answer."""
        return await self._upstream.post_to(self._model_endpoints, path, body, session=session.id)

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """Return one chat completion, without conversion to or from the Responses API."""
        url, answer = await self.post(
            self.chat_path + self._query, self._chat_request(body), session
        )
        model = self.config.model
        completion = self._upstream.answers.read(url, answer, partial(as_it_came, model=model))
        if isinstance(completion, ContextOverflow):
            return overflow_completion(body, model=model, overflow=completion)
        return completion

    def _chat_request(self, body: ChatCreateParams) -> JsonDict:
        chat_request = to_plain(body)
        metadata = chat_request.pop("metadata", None) or {}
        request = {
            **self._conversion.extra_body,
            **json_setting(metadata, "extra_body"),
            **chat_request,
            "model": self.config.model,
            "messages": [without_tokens(message) for message in chat_request["messages"]],
            **self._conversion.sampling_overrides,
        }
        template = template_kwargs(metadata, chat_request, self._conversion)
        if template:
            request["chat_template_kwargs"] = template
        if self.config.replace_developer_role_with_system:
            for message in request["messages"]:
                if message["role"] == "developer":
                    message["role"] = "system"
        return request

    def base_url_for(self, key: str) -> str:
        """Return the base URL for the next request of the session `key`. Raises `ModelError`: no
        endpoint.
        """
        return self._model_endpoints.home(key).url

    async def list_models(self) -> list[str]:
        """Return the models that one endpoint lists. Raises `CallError`: it does not answer."""
        return await self._upstream.models(self.base_url_for(""))

    def facts(self) -> EndpointFacts:
        """Return the name of the configured model."""
        return EndpointFacts(model=self.config.model)

    async def check(self) -> str:
        """Ask each endpoint which models it serves, and return a summary.

        Raises `CallError`: no endpoint answers, or one rejects the key. If only some endpoints
        fail, the summary names them. Requests avoid an unreachable endpoint until it answers.
        """
        checks = await asyncio.gather(
            *(self._check_one(endpoint) for endpoint in self._model_endpoints.all)
        )
        texts = [text for text, error in checks if error is None]
        failed = [error for _, error in checks if error is not None]
        if failed and not texts:
            raise failed[0]
        return "; ".join([*texts, *(f"without {error.message}" for error in failed)])

    async def _check_one(self, endpoint: ProviderEndpoint) -> tuple[str, CallError | None]:
        try:
            check_text = await check_endpoint(self._upstream, endpoint.url, self.config.model)
        except Hopeless:
            raise
        except CallError as error:
            if isinstance(error, ConnectionFailed):
                self._model_endpoints.lost(endpoint, error.message)
            return "", error
        self._model_endpoints.answered(endpoint)
        return check_text, None

    async def start(self) -> None:
        """Start watching the endpoints if there are several."""
        if len(self._base_urls) > 1:
            watch = self._upstream.watch(self._model_endpoints)
            self._watching = asyncio.create_task(watch, name=f"endpoints of {self.name}")

    async def stop(self) -> None:
        """Stop watching the endpoints."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})


def base_urls(configured: str | list[str]) -> tuple[str, ...]:
    """Return the configured URLs as a tuple, without trailing slashes."""
    urls = [configured] if isinstance(configured, str) else configured
    return tuple(url.rstrip("/") for url in urls)


async def check_endpoint(upstream: Upstream, base_url: str, model: str, *, query: str = "") -> str:
    """Return a text that says whether the endpoint is reachable and lists `model`. `query`: the
    query string of the request for its models, with the question mark.

    A list without `model` is no error, because some endpoints accept any name. Raises `CallError`:
    the endpoint is unreachable or rejects the key.
    """
    try:
        served = await upstream.models(base_url, query=query)
    except ModelNotServed:
        return f"{base_url} is reachable and lists no models"
    if model in served:
        return f"{base_url} is reachable and serves {model}"
    names = ", ".join(served[:5]) or "nothing"
    near = nearest(model, served)
    names += f"; did you mean {near}?" if near else ""
    return f"{base_url} is reachable and does not list {model!r} (it lists {names})"
