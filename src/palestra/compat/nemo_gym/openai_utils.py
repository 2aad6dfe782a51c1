"""`nemo_gym.openai_utils`: the wire types, and a client of OpenAI-compatible endpoints.

A type of the openai package that is not listed here, prefixed with `NeMoGym`, is created at its
first use.
"""

import importlib
from typing import Any
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from palestra.compat.http import endpoint_json, patient_request, request
from palestra.compat.openai_types.base import OpenAIModel, OpenDict
from palestra.compat.openai_types.chat import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionAssistantMessageForTrainingParam,
    NeMoGymChatCompletionAssistantMessageParam,
    NeMoGymChatCompletionContentPartImageParam,
    NeMoGymChatCompletionContentPartTextParam,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymChatCompletionDeveloperMessageParam,
    NeMoGymChatCompletionMessage,
    NeMoGymChatCompletionMessageForTraining,
    NeMoGymChatCompletionMessageParam,
    NeMoGymChatCompletionMessageToolCall,
    NeMoGymChatCompletionMessageToolCallFunctionParam,
    NeMoGymChatCompletionMessageToolCallParam,
    NeMoGymChatCompletionSystemMessageParam,
    NeMoGymChatCompletionToolMessageParam,
    NeMoGymChatCompletionToolParam,
    NeMoGymChatCompletionUserMessageParam,
    NeMoGymChoice,
    NeMoGymCompletionTokensDetails,
    NeMoGymCompletionUsage,
    NeMoGymFunction,
    NeMoGymFunctionDefinition,
    NeMoGymPromptTokensDetails,
)
from palestra.compat.openai_types.items import (
    NeMoGymContent,
    NeMoGymEasyInputMessage,
    NeMoGymEasyInputMessageForTraining,
    NeMoGymFunctionCallOutput,
    NeMoGymMessage,
    NeMoGymMessageForTraining,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseFunctionToolCallForTraining,
    NeMoGymResponseInput,
    NeMoGymResponseInputItem,
    NeMoGymResponseOutputItem,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputMessageForTraining,
    NeMoGymResponseOutputRefusal,
    NeMoGymResponseOutputText,
    NeMoGymResponseReasoningItem,
    NeMoGymResponseReasoningItemForTraining,
    NeMoGymSummary,
    NeMoGymUnknownItem,
)
from palestra.compat.openai_types.responses import (
    NeMoGymIncompleteDetails,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseUsage,
    accumulate_response_usage,
    empty_response_usage,
)
from palestra.compat.openai_types.tokens import (
    REQUIRED_TOKEN_METADATA_FIELDS,
    TOKEN_METADATA_FIELDS,
    TokenIDLogProbMixin,
)
from palestra.schema import JsonDict
from palestra.transport import RetryCount


class NeMoGymAsyncOpenAI(BaseModel):
    """A client of one endpoint. Every method returns the response's JSON and raises for an error
    status.

    A busy endpoint (`RATE_LIMIT_ERROR_CODES`) is asked again until the rollout's deadline. A status
    500 is final at the third time. Raises EndpointRefused, an `aiohttp.ClientResponseError`: the
    status is an error.
    """

    model_config = ConfigDict(extra="allow")

    base_url: str
    api_key: str = ""
    default_headers: dict[str, str] = Field(default_factory=dict)

    _retries: RetryCount = PrivateAttr(default_factory=RetryCount)

    async def create_response(self, **params: Any) -> JsonDict:
        """Send `POST /responses`."""
        return await self._post("responses", params)

    async def create_chat_completion(self, **params: Any) -> JsonDict:
        """Send `POST /chat/completions`."""
        return await self._post("chat/completions", params)

    async def create_completion(self, **params: Any) -> JsonDict:
        """Send `POST /completions`."""
        return await self._post("completions", params)

    async def create_embedding(self, **params: Any) -> JsonDict:
        """Send `POST /embeddings`."""
        return await self._post("embeddings", params)

    async def create_models(self, **params: Any) -> JsonDict:
        """Send `GET /models` with `params` as the query."""
        return await self._ask("GET", "models", params=params)

    async def list_models(self) -> JsonDict:
        """Send `GET /models`."""
        return await self._ask("GET", "models")

    async def create_tokenize(self, **params: Any) -> JsonDict:
        """Send `POST /tokenize`. vLLM serves this path outside of `/v1`."""
        return await self._post(urljoin(self._url("x"), "../tokenize"), params)

    def _url(self, path: str) -> str:
        return path if "://" in path else f"{self.base_url.rstrip('/')}/{path}"

    async def _post(self, path: str, params: JsonDict) -> JsonDict:
        headers = params.pop("extra_headers", None) or {}
        body = {**params, **(params.pop("extra_body", None) or {})}
        body.pop("extra_body", None)
        return await self._ask("POST", path, json=body, headers=headers)

    async def _ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **how: Any
    ) -> JsonDict:
        request_headers = {
            "Authorization": f"Bearer {self.api_key}",
            **self.default_headers,
            **(headers or {}),
        }
        url = self._url(path)

        async def send() -> Any:
            return await request(method, url, headers=request_headers, **how)

        response = await patient_request(
            send, what=url, busy=frozenset(RATE_LIMIT_ERROR_CODES), count=self._retries
        )
        model = str((how.get("json") or {}).get("model") or "")
        payload: JsonDict = await endpoint_json(response, url, model=model)
        return payload


TokenIDLogProbTypedDictMixin = OpenDict

RESPONSES_TO_TRAIN: dict[type[OpenAIModel], type[OpenAIModel]] = {
    NeMoGymEasyInputMessage: NeMoGymEasyInputMessageForTraining,
    NeMoGymMessage: NeMoGymMessageForTraining,
    NeMoGymResponseOutputMessage: NeMoGymResponseOutputMessageForTraining,
    NeMoGymResponseFunctionToolCall: NeMoGymResponseFunctionToolCallForTraining,
    NeMoGymResponseReasoningItem: NeMoGymResponseReasoningItemForTraining,
}
"""For each type of item, the type that also carries token ids."""


def training_variant_of(cls: type[OpenAIModel]) -> type[OpenAIModel]:
    """Return the type that has the fields of `cls` and its token ids.

    Raises NotImplementedError: there is no such type.
    """
    if issubclass(cls, TokenIDLogProbMixin):
        return cls
    if cls is NeMoGymChatCompletionMessage:
        return NeMoGymChatCompletionMessageForTraining
    try:
        return RESPONSES_TO_TRAIN[cls]
    except KeyError:
        raise NotImplementedError(f"{cls.__name__} has no variant with token ids") from None


RATE_LIMIT_ERROR_CODES = [429, 502, 503, 504, 520]
"""HTTP statuses that are retried without counting as a try. A list: authors add lists to it."""

RETRY_ERROR_CODES = [*RATE_LIMIT_ERROR_CODES, 500]
"""HTTP statuses that are retried."""

_PREFIX = "NeMoGym"
_PLACES = ("openai.types.responses", "openai.types.chat", "openai.types")


def __getattr__(name: str) -> Any:
    mirrored = _mirrored(name)
    if mirrored is None:
        raise AttributeError(f"module 'nemo_gym.openai_utils' has no attribute {name!r}")
    globals()[name] = mirrored  # the same class for everybody who asks
    return mirrored


def _mirrored(name: str) -> Any | None:
    """Return the type called `name`; None when `name` is not `NeMoGym` followed by a type name.

    If the openai package has the type, the result has the same fields. Else it accepts any fields.
    """
    theirs = name.removeprefix(_PREFIX)
    if theirs == name or not theirs[:1].isupper():
        return None
    if theirs.endswith("Param"):
        return type(name, (OpenDict,), {"__module__": __name__})
    original = _of_openai(theirs)
    if isinstance(original, type) and hasattr(original, "model_fields"):
        return type(name, (original,), {"__module__": __name__})
    if original is not None and not isinstance(original, type):
        return original  # a union
    return type(name, (OpenAIModel,), {"__module__": __name__})


def _of_openai(name: str) -> Any | None:
    for module_name in _PLACES:
        try:
            return getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError):
            continue
    return None


__all__ = [
    "RATE_LIMIT_ERROR_CODES",
    "REQUIRED_TOKEN_METADATA_FIELDS",
    "RESPONSES_TO_TRAIN",
    "RETRY_ERROR_CODES",
    "TOKEN_METADATA_FIELDS",
    "NeMoGymAsyncOpenAI",
    "NeMoGymChatCompletion",
    "NeMoGymChatCompletionAssistantMessageForTrainingParam",
    "NeMoGymChatCompletionAssistantMessageParam",
    "NeMoGymChatCompletionContentPartImageParam",
    "NeMoGymChatCompletionContentPartTextParam",
    "NeMoGymChatCompletionCreateParamsNonStreaming",
    "NeMoGymChatCompletionDeveloperMessageParam",
    "NeMoGymChatCompletionMessage",
    "NeMoGymChatCompletionMessageForTraining",
    "NeMoGymChatCompletionMessageParam",
    "NeMoGymChatCompletionMessageToolCall",
    "NeMoGymChatCompletionMessageToolCallFunctionParam",
    "NeMoGymChatCompletionMessageToolCallParam",
    "NeMoGymChatCompletionSystemMessageParam",
    "NeMoGymChatCompletionToolMessageParam",
    "NeMoGymChatCompletionToolParam",
    "NeMoGymChatCompletionUserMessageParam",
    "NeMoGymChoice",
    "NeMoGymCompletionTokensDetails",
    "NeMoGymCompletionUsage",
    "NeMoGymContent",
    "NeMoGymEasyInputMessage",
    "NeMoGymEasyInputMessageForTraining",
    "NeMoGymFunction",
    "NeMoGymFunctionCallOutput",
    "NeMoGymFunctionDefinition",
    "NeMoGymIncompleteDetails",
    "NeMoGymMessage",
    "NeMoGymMessageForTraining",
    "NeMoGymPromptTokensDetails",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "NeMoGymResponseFunctionToolCall",
    "NeMoGymResponseFunctionToolCallForTraining",
    "NeMoGymResponseInput",
    "NeMoGymResponseInputItem",
    "NeMoGymResponseInputTokensDetails",
    "NeMoGymResponseOutputItem",
    "NeMoGymResponseOutputMessage",
    "NeMoGymResponseOutputMessageForTraining",
    "NeMoGymResponseOutputRefusal",
    "NeMoGymResponseOutputText",
    "NeMoGymResponseOutputTokensDetails",
    "NeMoGymResponseReasoningItem",
    "NeMoGymResponseReasoningItemForTraining",
    "NeMoGymResponseUsage",
    "NeMoGymSummary",
    "NeMoGymUnknownItem",
    "TokenIDLogProbMixin",
    "TokenIDLogProbTypedDictMixin",
    "accumulate_response_usage",
    "empty_response_usage",
    "training_variant_of",
]
