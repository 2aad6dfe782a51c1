"""`anthropic_model`: a model server for an endpoint that speaks Anthropic's Messages."""

from functools import cached_property, partial
from typing import Final

from pydantic import Field, SecretStr

from palestra.responses_api_models.anthropic_model.request import to_messages_request
from palestra.responses_api_models.anthropic_model.response import response_from_message
from palestra.responses_api_models.chat import (
    ContextOverflow,
    EndpointConfig,
    Upstream,
    check_endpoint,
    overflow_response,
)
from palestra.schema import Response, ResponseCreateParams
from palestra.server import EndpointFacts, ModelServer, Session

API_VERSION: Final = "2023-06-01"
"""The version of the protocol, which every request names."""

_ALL_MODELS: Final = "?limit=1000"
"""The list of models has pages. This asks for the longest one."""


class AnthropicModelConfig(EndpointConfig):
    """The settings of `anthropic_model`."""

    base_url: str
    """The URL of the endpoint, including `/v1`."""
    api_key: SecretStr = SecretStr("")
    """The API key, sent in the header `x-api-key`; empty: no key is sent."""
    model: str
    """The provider's name of the model. The model name in a request is ignored."""
    max_output_tokens_default: int = Field(default=8192, ge=1)
    """The limit of an answer's tokens for rows that set none. The protocol requires a limit."""


class AnthropicModel(ModelServer):
    """A model server that converts Responses API requests to messages at `<base_url>/messages`."""

    config: AnthropicModelConfig

    @cached_property
    def _base_url(self) -> str:
        return self.config.base_url.rstrip("/")

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(
            self.server_client.http,
            server=self.name,
            model=self.config.model,
            api_key=self.config.api_key.get_secret_value(),
            key_header="x-api-key",
            headers={"anthropic-version": API_VERSION, **self.config.default_headers},
            request_timeout_s=self.config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return one model turn. Raises `CallError`: the endpoint refuses the request."""
        del session  # there is one endpoint
        config = self.config
        request = to_messages_request(
            body,
            model=config.model,
            max_tokens=config.max_output_tokens_default,
            extra_body=config.extra_body or {},
        )
        url = f"{self._base_url}/messages"
        decode = partial(response_from_message, params=body, model=config.model)
        answer = await self._upstream.post(url, request)
        response = self._upstream.answers.read_as("message", url, answer, decode)
        if isinstance(response, ContextOverflow):
            return overflow_response(body, model=config.model, overflow=response)
        self._upstream.answers.answered()
        return response

    async def list_models(self) -> list[str]:
        """Return the models that the endpoint lists. Raises `CallError`: it does not answer."""
        return await self._upstream.models(self._base_url, query=_ALL_MODELS)

    def facts(self) -> EndpointFacts:
        """Return the name of the configured model."""
        return EndpointFacts(model=self.config.model)

    async def check(self) -> str:
        """Ask the endpoint which models it serves, and return a summary. Raises `CallError`: it
        does not answer.
        """
        model = self.config.model
        return await check_endpoint(self._upstream, self._base_url, model, query=_ALL_MODELS)
