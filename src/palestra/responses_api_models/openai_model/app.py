"""`openai_model`: an endpoint that speaks the Responses API itself."""

from functools import cached_property
from typing import Any

from pydantic import Field, SecretStr, field_validator

from palestra.errors import Hop, excerpt
from palestra.responses_api_models.chat import (
    ContextOverflow,
    Upstream,
    check_endpoint,
    is_context_overflow,
    overflow_response,
    refuse_stream,
)
from palestra.responses_api_models.chat.upstream import REQUEST_TIMEOUT_S
from palestra.responses_api_models.openai_model.passthrough import (
    cut_at_limit,
    failure_of,
    read_response,
    to_request,
)
from palestra.schema import Response, ResponseCreateParams
from palestra.server import EndpointFacts, ModelServer, ModelServerConfig, Session


class OpenAIModelConfig(ModelServerConfig):
    """Settings of `openai_model`."""

    openai_base_url: str
    """Where the endpoint is, `/v1` included."""
    openai_api_key: SecretStr = SecretStr("")
    """Sent as a bearer token; empty sends none."""
    openai_model: str
    """The model asked for when a request names none."""
    extra_body: dict[str, Any] | None = None
    """Fields added to every request, unless the row sets them itself."""
    default_headers: dict[str, str] = Field(default_factory=dict)
    request_timeout_s: float = Field(default=REQUEST_TIMEOUT_S, gt=0)
    """Seconds that one request to the endpoint may take; a rollout's own deadline may end sooner."""

    @field_validator("extra_body")
    @classmethod
    def _in_one_piece(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return refuse_stream(value)


class OpenAIModel(ModelServer):
    """Passes requests on to `<openai_base_url>/responses` and answers as that does."""

    config: OpenAIModelConfig

    @cached_property
    def _base_url(self) -> str:
        return self.config.openai_base_url.rstrip("/")

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(
            self.server_client.http,
            server=self.name,
            model=self.config.openai_model,
            api_key=self.config.openai_api_key.get_secret_value(),
            headers=self.config.default_headers,
            request_timeout_s=self.config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """One turn of the model. Raises `CallError` for whatever the endpoint refuses."""
        del session  # there is one endpoint, and it keeps nothing of ours
        config = self.config
        request = to_request(body, model=config.openai_model, extra_body=config.extra_body or {})
        url = f"{self._base_url}/responses"
        answer = await self._upstream.post(url, request)
        if isinstance(answer, ContextOverflow):
            return overflow_response(body, model=request["model"], overflow=answer)
        try:
            response = read_response(answer, model=request["model"])
        except ValueError as error:
            overflow = self._upstream.answers.no_answer(url, answer, "response", error)
            return overflow_response(body, model=request["model"], overflow=overflow)
        failure = failure_of(response)
        if failure is None:
            self._upstream.answers.answered()
            return cut_at_limit(response, request)
        if is_context_overflow(failure.message):
            hop = Hop(self.name, url, 200, excerpt(answer))
            overflow = self._upstream.answers.overflow(failure.message, hop)
            return overflow_response(body, model=response.model, overflow=overflow)
        raise self._upstream.answers.failed(url, answer, failure)

    async def list_models(self) -> list[str]:
        """What the endpoint serves. Raises `CallError` when it cannot say."""
        return await self._upstream.models(self._base_url)

    def facts(self) -> EndpointFacts:
        """The model that is asked for."""
        return EndpointFacts(model=self.config.openai_model)

    async def check(self) -> str:
        """Ask the endpoint which models it serves. Raises `CallError` when it cannot answer."""
        return await check_endpoint(self._upstream, self._base_url, self.config.openai_model)
