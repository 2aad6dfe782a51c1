"""`ChatCompletionsServer`: Responses API in front of any Chat Completions endpoint."""

import zlib
from functools import cached_property
from typing import Any, ClassVar, Self

import msgspec
import orjson
from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from palestra.errors import ConfigError, ModelError, ModelNotServed
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.request import json_setting, to_chat_request
from palestra.responses_api_models.chat.response import overflow_response, to_response
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.chat.upstream import Upstream
from palestra.schema import (
    ChatChoice,
    ChatCompletion,
    ChatCreateParams,
    ChatMessage,
    Response,
    ResponseCreateParams,
    decode_completion,
    to_plain,
)
from palestra.serving import ModelServer, ModelServerConfig, Session
from palestra.transport import new_id


class ChatModelConfig(ModelServerConfig):
    """Settings of a model server in front of Chat Completions endpoints."""

    base_url: str | list[str]
    """Where the endpoint is, `/v1` included. Of several, a session always uses the same one."""
    api_key: SecretStr = SecretStr("")
    """Sent as a bearer token; empty sends none."""
    model: str
    """The name under which the endpoint serves the model. A request's own is not used."""
    has_token_ids: ClassVar[bool] = False
    """Whether this kind of model server can return the ids of tokens."""
    return_token_id_information: bool = False
    """Must be false: only `vllm_model` returns the ids of tokens."""
    is_responses_native: bool = False
    """Must be false: an endpoint that speaks the Responses API itself is `openai_model`'s."""
    uses_reasoning_parser: bool = False
    """The endpoint was started with a reasoning parser and answers in `reasoning_content`."""
    uses_interleaved_reasoning: bool = True
    """With a reasoning parser: earlier turns are sent with their reasoning, else without."""
    replace_developer_role_with_system: bool = False
    sequential_reasoning_allowed: bool = True
    """Whether a history may hold two reasoning items in a row; if not, such a row is refused."""
    chat_template_kwargs: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    """Fields added to every request, unless the row sets them itself."""
    default_headers: dict[str, str] = Field(default_factory=dict)

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
                "return_token_id_information: true is not for this model server",
                hint="set return_token_id_information: false, or use vllm_model",
            )
        if self.is_responses_native:
            raise ConfigError(
                "is_responses_native: true is not for a Chat Completions model server",
                hint="use openai_model, which passes the Responses API through",
            )
        return self

    def conversion(self) -> ConversionSettings:
        """The part of these settings that decides about messages."""
        return ConversionSettings(
            uses_reasoning_parser=self.uses_reasoning_parser,
            uses_interleaved_reasoning=self.uses_interleaved_reasoning,
            replace_developer_role_with_system=self.replace_developer_role_with_system,
            sequential_reasoning_allowed=self.sequential_reasoning_allowed,
            chat_template_kwargs=self.chat_template_kwargs or {},
            extra_body=self.extra_body or {},
        )


class ChatCompletionsServer(ModelServer):
    """Turns Responses API requests into chat completions of `config.base_url`.

    A subclass that starts its own endpoint sets `self._base_urls` in `start()`.
    """

    config: ChatModelConfig

    # Cached properties, as private attributes of a pydantic model cost microseconds a read.
    @cached_property
    def _base_urls(self) -> tuple[str, ...]:
        return base_urls(self.config.base_url)

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
            headers=self.config.default_headers,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """One turn of the model. Raises `CallError` for whatever the endpoint refuses."""
        model = self.config.model
        request = to_chat_request(body, model=model, settings=self._conversion)
        url = self.base_url_for(session.id) + "/chat/completions"
        answer = await self._upstream.post(url, request)
        if isinstance(answer, ContextOverflow):
            return overflow_response(body, model=model, sentence=answer.sentence)
        try:
            completion = decode_completion(answer)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._upstream.unreadable(url, answer, "chat completion", error) from error
        return to_response(completion, body, model=model, settings=self._conversion)

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """One chat completion, asked and answered as it came."""
        url = self.base_url_for(session.id) + "/chat/completions"
        answer = await self._upstream.post(url, self._chat_request(body))
        if isinstance(answer, ContextOverflow):
            return _overflow_completion(self.config.model)
        try:
            return ChatCompletion.model_validate(orjson.loads(answer))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise self._upstream.unreadable(url, answer, "chat completion", error) from error

    def _chat_request(self, body: ChatCreateParams) -> dict[str, Any]:
        asked = to_plain(body)
        metadata = asked.pop("metadata", None) or {}
        request = {
            **self._conversion.extra_body,
            **json_setting(metadata, "extra_body"),
            **asked,
            "model": self.config.model,
        }
        template = {
            **self._conversion.chat_template_kwargs,
            **json_setting(metadata, "chat_template_kwargs"),
            **request.get("chat_template_kwargs", {}),
        }
        if template:
            request["chat_template_kwargs"] = template
        if self.config.replace_developer_role_with_system:
            for message in request["messages"]:
                if message["role"] == "developer":
                    message["role"] = "system"
        return request

    def base_url_for(self, key: str) -> str:
        """The endpoint for everything with this key: the same one in every worker process."""
        urls = self._base_urls
        if not urls:
            raise ModelError(f"{self.name} has no endpoint yet", hint="its start() must set one")
        if len(urls) == 1:
            return urls[0]
        return urls[zlib.crc32(key.encode()) % len(urls)]

    async def list_models(self) -> list[str]:
        """What the first endpoint serves. Raises `CallError` when it cannot say."""
        return await self._upstream.models(self.base_url_for(""))

    async def check(self) -> str:
        """Ask each endpoint which models it serves. Raises `CallError` when one cannot answer."""
        found = [
            await check_endpoint(self._upstream, url, self.config.model) for url in self._base_urls
        ]
        return "; ".join(found)


def base_urls(configured: str | list[str]) -> tuple[str, ...]:
    """The configured URLs as a tuple, without slashes at their ends."""
    urls = [configured] if isinstance(configured, str) else configured
    return tuple(url.rstrip("/") for url in urls)


async def check_endpoint(upstream: Upstream, base_url: str, model: str) -> str:
    """Whether the endpoint is there and says that it serves `model`.

    That it lists other names is no failure: some endpoints accept any name. Raises `CallError`
    when it cannot be reached or rejects the key.
    """
    try:
        served = await upstream.models(base_url)
    except ModelNotServed:
        return f"{base_url} is reachable and lists no models"
    if model in served:
        return f"{base_url} is reachable and serves {model}"
    names = ", ".join(served[:5]) or "nothing"
    return f"{base_url} is reachable and does not list {model!r} (it lists {names})"


def _overflow_completion(model: str) -> ChatCompletion:
    message = ChatMessage(role="assistant", content="")
    return ChatCompletion(
        id=new_id("chatcmpl-"),
        created=0,
        model=model,
        choices=[ChatChoice(index=0, message=message, finish_reason="length")],
    )
