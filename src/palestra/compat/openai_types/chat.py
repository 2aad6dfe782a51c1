"""Types of the Chat Completions API, under the names that existing environments use."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from palestra.compat.openai_types.base import Named, OpenAIModel, OpenDict, field_of
from palestra.compat.openai_types.shapes import ChatToolEntry, OpenChatMessage, ToolChoice, Typed
from palestra.compat.openai_types.tokens import (
    TOKEN_METADATA_FIELDS,
    TokenCarrier,
    TokenIDLogProbMixin,
)


class NeMoGymFunction(OpenAIModel):
    """The name and the arguments of a tool call."""

    arguments: str
    name: str


class NeMoGymChatCompletionMessageToolCall(Named):
    """A tool call of the model."""

    id: str
    function: NeMoGymFunction
    type: Literal["function"] = "function"


class NeMoGymChatCompletionMessage(Named, TokenCarrier):
    """A message of the assistant."""

    __told_by__ = frozenset({"role"})

    content: str | None = None
    refusal: str | None = None
    role: Literal["assistant"] = "assistant"
    annotations: list[Any] | None = None
    audio: OpenDict | None = None
    function_call: OpenDict | None = None
    tool_calls: list[NeMoGymChatCompletionMessageToolCall] | None = None


class NeMoGymChatCompletionMessageForTraining(NeMoGymChatCompletionMessage, TokenIDLogProbMixin):
    """A message of the assistant, with its token ids."""


def _message_tag(value: Any) -> str:
    has_tokens = any(field_of(value, name) is not None for name in TOKEN_METADATA_FIELDS)
    return "trained" if has_tokens else "plain"


class NeMoGymChoice(OpenAIModel):
    """One of the completions that the request asked for."""

    finish_reason: str | None = None
    index: int = 0
    logprobs: OpenDict | None = None
    message: Annotated[
        Annotated[NeMoGymChatCompletionMessage, Tag("plain")]
        | Annotated[NeMoGymChatCompletionMessageForTraining, Tag("trained")],
        Discriminator(_message_tag),
    ]


class NeMoGymCompletionUsage(OpenAIModel):
    """The numbers of input and output tokens, under the names of Chat Completions."""

    completion_tokens: int = 0
    prompt_tokens: int = 0
    total_tokens: int = 0
    completion_tokens_details: OpenDict | None = None
    prompt_tokens_details: OpenDict | None = None


class NeMoGymChatCompletion(OpenAIModel):
    """The response of a Chat Completions endpoint."""

    id: str
    choices: list[NeMoGymChoice]
    created: int
    model: str
    object: Literal["chat.completion"] = "chat.completion"
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: NeMoGymCompletionUsage | None = None


class NeMoGymChatCompletionCreateParamsNonStreaming(OpenAIModel):
    """The request to a Chat Completions endpoint, without streaming."""

    messages: list[OpenChatMessage]
    model: str | None = None
    audio: OpenDict | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    metadata: dict[str, str] | None = None
    modalities: list[str] | None = None
    n: int | None = None
    parallel_tool_calls: bool | None = None
    prediction: OpenDict | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    response_format: Typed | None = None
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream_options: OpenDict | None = None
    temperature: float | None = None
    tool_choice: ToolChoice | None = None
    tools: list[ChatToolEntry] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    web_search_options: OpenDict | None = None
    stream: Literal[False] | None = None


class NeMoGymChatCompletionMessageParam(OpenChatMessage):
    """A message of a conversation, as a dict."""


class NeMoGymChatCompletionUserMessageParam(NeMoGymChatCompletionMessageParam):
    """A user message, as a dict."""


class NeMoGymChatCompletionSystemMessageParam(NeMoGymChatCompletionMessageParam):
    """A system message, as a dict."""


class NeMoGymChatCompletionDeveloperMessageParam(NeMoGymChatCompletionMessageParam):
    """A developer message, as a dict."""


class NeMoGymChatCompletionAssistantMessageParam(NeMoGymChatCompletionMessageParam):
    """An assistant message, as a dict."""


class NeMoGymChatCompletionAssistantMessageForTrainingParam(
    NeMoGymChatCompletionAssistantMessageParam
):
    """An assistant message with its token ids, as a dict."""


class NeMoGymChatCompletionToolMessageParam(NeMoGymChatCompletionMessageParam):
    """The result of a tool call, as a dict."""


class NeMoGymChatCompletionToolParam(ChatToolEntry):
    """A tool that the model may call."""


class NeMoGymFunctionDefinition(OpenDict):
    """The name, description and parameters of a tool."""


class NeMoGymChatCompletionMessageToolCallParam(OpenDict):
    """A tool call in a conversation."""


class NeMoGymChatCompletionMessageToolCallFunctionParam(OpenDict):
    """The name and the arguments of a tool call in a conversation."""


class NeMoGymChatCompletionContentPartTextParam(OpenDict):
    """A text part of a message."""


class NeMoGymChatCompletionContentPartImageParam(OpenDict):
    """An image part of a message."""


class NeMoGymCompletionTokensDetails(OpenAIModel):
    """The number of output tokens that were reasoning."""

    reasoning_tokens: int | None = Field(default=None)


class NeMoGymPromptTokensDetails(OpenAIModel):
    """The number of input tokens that came from a cache."""

    cached_tokens: int | None = Field(default=None)
