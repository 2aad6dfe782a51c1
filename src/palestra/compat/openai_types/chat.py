"""Chat Completions, as authors in the field name them."""

from typing import Any, Literal

from pydantic import Field

from palestra.compat.openai_types.base import Named, OpenDict, WireModel
from palestra.compat.openai_types.shapes import ChatMessage, ChatToolEntry, ToolChoice, Typed


class NeMoGymFunction(WireModel):
    """Name and arguments of a tool call."""

    arguments: str
    name: str


class NeMoGymChatCompletionMessageToolCall(Named):
    """The model asks for a tool."""

    id: str
    function: NeMoGymFunction
    type: Literal["function"] = "function"


class NeMoGymChatCompletionMessage(Named):
    """What the assistant said."""

    __told_by__ = frozenset({"role"})

    content: str | None = None
    refusal: str | None = None
    role: Literal["assistant"] = "assistant"
    annotations: list[Any] | None = None
    audio: OpenDict | None = None
    function_call: OpenDict | None = None
    tool_calls: list[NeMoGymChatCompletionMessageToolCall] | None = None


class NeMoGymChatCompletionMessageForTraining(NeMoGymChatCompletionMessage):
    """What the assistant said, with the ids of its tokens."""

    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    generation_log_probs: list[float]


class NeMoGymChoice(WireModel):
    """One of the completions asked for."""

    finish_reason: str | None = None
    index: int = 0
    logprobs: OpenDict | None = None
    message: NeMoGymChatCompletionMessage


class NeMoGymCompletionUsage(WireModel):
    """Tokens read and written, as Chat Completions names them."""

    completion_tokens: int = 0
    prompt_tokens: int = 0
    total_tokens: int = 0
    completion_tokens_details: OpenDict | None = None
    prompt_tokens_details: OpenDict | None = None


class NeMoGymChatCompletion(WireModel):
    """What a Chat Completions endpoint answers."""

    id: str
    choices: list[NeMoGymChoice]
    created: int
    model: str
    object: Literal["chat.completion"] = "chat.completion"
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: NeMoGymCompletionUsage | None = None


class NeMoGymChatCompletionCreateParamsNonStreaming(WireModel):
    """What is asked of a Chat Completions endpoint."""

    messages: list[ChatMessage]
    model: str | None = None
    audio: OpenDict | None = None
    frequency_penalty: float | None = None
    function_call: str | OpenDict | None = None
    functions: list[OpenDict] | None = None
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


class NeMoGymChatCompletionMessageParam(ChatMessage):
    """A message of a conversation, as a dict."""


class NeMoGymChatCompletionUserMessageParam(NeMoGymChatCompletionMessageParam):
    """Of the user."""


class NeMoGymChatCompletionSystemMessageParam(NeMoGymChatCompletionMessageParam):
    """Of the system."""


class NeMoGymChatCompletionDeveloperMessageParam(NeMoGymChatCompletionMessageParam):
    """Of the developer."""


class NeMoGymChatCompletionAssistantMessageParam(NeMoGymChatCompletionMessageParam):
    """Of the assistant."""


class NeMoGymChatCompletionAssistantMessageForTrainingParam(
    NeMoGymChatCompletionAssistantMessageParam
):
    """Of the assistant, with the ids of its tokens."""


class NeMoGymChatCompletionToolMessageParam(NeMoGymChatCompletionMessageParam):
    """What a tool answered."""


class NeMoGymChatCompletionToolParam(ChatToolEntry):
    """A tool that the model may call."""


class NeMoGymFunctionDefinition(OpenDict):
    """Name, description and parameters of a tool."""


class NeMoGymChatCompletionMessageToolCallParam(OpenDict):
    """A tool call in a conversation."""


class NeMoGymChatCompletionMessageToolCallFunctionParam(OpenDict):
    """Name and arguments of a tool call in a conversation."""


class NeMoGymChatCompletionContentPartTextParam(OpenDict):
    """Text among the parts of a message."""


class NeMoGymChatCompletionContentPartImageParam(OpenDict):
    """An image among the parts of a message."""


class NeMoGymCompletionTokensDetails(WireModel):
    """How many of the tokens written were reasoning."""

    reasoning_tokens: int | None = Field(default=None)


class NeMoGymPromptTokensDetails(WireModel):
    """How many of the tokens read came from a cache."""

    cached_tokens: int | None = Field(default=None)
