"""Types of requests to a model and of its responses, under the names that existing environments
use.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from palestra.compat.openai_types.base import Named, OpenAIModel, OpenDict, field_of, plain
from palestra.compat.openai_types.items import (
    NeMoGymEasyInputMessage,
    NeMoGymResponseInput,
    NeMoGymResponseOutputItem,
    NeMoGymResponseOutputMessage,
)
from palestra.compat.openai_types.shapes import (
    ReasoningSettings,
    TextSettings,
    ToolChoice,
    ToolEntry,
)


class NeMoGymResponseInputTokensDetails(OpenAIModel):
    """The number of input tokens that came from a cache; None when it is unknown."""

    cached_tokens: int | None


class NeMoGymResponseOutputTokensDetails(OpenAIModel):
    """The number of output tokens that were reasoning; None when it is unknown."""

    reasoning_tokens: int | None


def _unknown_cached_tokens() -> NeMoGymResponseInputTokensDetails:
    return NeMoGymResponseInputTokensDetails(cached_tokens=None)


def _unknown_reasoning_tokens() -> NeMoGymResponseOutputTokensDetails:
    return NeMoGymResponseOutputTokensDetails(reasoning_tokens=None)


_DETAILS = (
    ("input_tokens_details", "cached_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
)


class NeMoGymResponseUsage(OpenAIModel):
    """The numbers of input and output tokens."""

    input_tokens: int
    input_tokens_details: NeMoGymResponseInputTokensDetails = Field(
        default_factory=_unknown_cached_tokens
    )
    output_tokens: int
    output_tokens_details: NeMoGymResponseOutputTokensDetails = Field(
        default_factory=_unknown_reasoning_tokens
    )
    total_tokens: int

    @model_validator(mode="before")
    @classmethod
    def _from_another_type(cls, value: Any) -> Any:
        # One validator in place of the base class's: each costs as much as a field.
        fields = value if isinstance(value, cls) else plain(value)
        if not isinstance(fields, Mapping):
            return fields
        # Some endpoints send details without the count.
        usage = dict(fields)
        for group, name in _DETAILS:
            if isinstance(details := usage.get(group), Mapping):
                usage[group] = {name: None, **details}
        return usage

    @classmethod
    def sum_from_list(cls, usages: Iterable["NeMoGymResponseUsage"]) -> Self:
        """Return the sum of `usages`, which starts from 0. A count is None once one usage does not
        know it.
        """
        total = cls.model_validate(empty_response_usage())
        for usage in usages:
            accumulate_response_usage(total, usage)
        return total


class NeMoGymIncompleteDetails(OpenAIModel):
    """The reason why the model stopped before it was done."""

    reason: str | None = None


class NeMoGymResponseCreateParamsNonStreaming(OpenAIModel):
    """The request to the model: input, tools and sampling parameters of a task.

    Other fields are refused. A parameter that only one endpoint has goes into
    `metadata.extra_body`, a JSON object as text.
    """

    model_config = ConfigDict(extra="forbid")

    background: bool | None = None
    include: list[str] | None = None
    input: str | NeMoGymResponseInput
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    model: str | None = None
    parallel_tool_calls: bool | None = True
    previous_response_id: str | None = None
    prompt: OpenDict | None = None
    reasoning: ReasoningSettings | None = None
    service_tier: str | None = None
    store: bool | None = None
    temperature: float | None = None
    text: TextSettings | None = None
    tool_choice: ToolChoice | None = "auto"
    tools: list[ToolEntry] = Field(default_factory=list)
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str | None = None
    stream: Literal[False] | None = None


class NeMoGymResponse(Named):
    """One response of a model. An agent's response holds the whole trajectory in `output`."""

    __told_by__ = frozenset({"object"})

    id: str
    created_at: float
    error: OpenDict | None = None
    incomplete_details: NeMoGymIncompleteDetails | None = None
    instructions: str | list[Any] | None = None
    metadata: dict[str, Any] | None = None
    model: str
    object: Literal["response"] = "response"
    output: list[NeMoGymResponseOutputItem]
    parallel_tool_calls: bool | None = True
    temperature: float | None = None
    tool_choice: str | OpenDict | None = "auto"
    tools: list[ToolEntry] = Field(default_factory=list)
    top_p: float | None = None
    background: bool | None = None
    conversation: OpenDict | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    previous_response_id: str | None = None
    prompt: OpenDict | None = None
    prompt_cache_key: str | None = None
    reasoning: OpenDict | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    status: (
        Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"] | None
    ) = None
    text: OpenDict | None = None
    top_logprobs: int | None = None
    truncation: str | None = None
    usage: NeMoGymResponseUsage | None = None
    user: str | None = None

    @property
    def output_text(self) -> str:
        """The text of all assistant messages, joined; empty when there is no text."""
        return "".join(
            str(field_of(part, "text") or "")
            for item in self.output
            if isinstance(item, NeMoGymResponseOutputMessage)
            for part in item.content
            if field_of(part, "type") == "output_text"
        )


def empty_response_usage() -> NeMoGymResponseUsage:
    """Return a usage with 0 input tokens and 0 output tokens."""
    return NeMoGymResponseUsage(
        input_tokens=0,
        input_tokens_details=NeMoGymResponseInputTokensDetails(cached_tokens=0),
        output_tokens=0,
        output_tokens_details=NeMoGymResponseOutputTokensDetails(reasoning_tokens=0),
        total_tokens=0,
    )


def accumulate_response_usage(total: Any, turn: Any) -> NeMoGymResponseUsage | None:
    """Add one turn's usage to `total` and return the sum. An existing `total` is changed in place.

    Each argument may be None, a usage, or a response, whose usage is taken. A count that one of the
    two does not know is None in the sum.
    """
    total_usage, added = _usage(total), _usage(turn)
    if added is None or total_usage is None:
        return total_usage if added is None else added.model_copy(deep=True)
    total_usage.input_tokens += added.input_tokens
    total_usage.output_tokens += added.output_tokens
    total_usage.total_tokens += added.total_tokens
    # Objects of their own: details may be shared between responses.
    total_usage.input_tokens_details = NeMoGymResponseInputTokensDetails(
        cached_tokens=_sum(
            total_usage.input_tokens_details.cached_tokens,
            added.input_tokens_details.cached_tokens,
        )
    )
    total_usage.output_tokens_details = NeMoGymResponseOutputTokensDetails(
        reasoning_tokens=_sum(
            total_usage.output_tokens_details.reasoning_tokens,
            added.output_tokens_details.reasoning_tokens,
        )
    )
    return total_usage


def _sum(count: int | None, added: int | None) -> int | None:
    return None if count is None or added is None else count + added


def _usage(value: Any) -> NeMoGymResponseUsage | None:
    if value is None:
        return None
    if isinstance(value, NeMoGymResponseUsage):
        return value
    if hasattr(value, "usage"):
        return _usage(value.usage)
    return NeMoGymResponseUsage.model_validate(value)


def input_messages(conversation: str | list[Any] | None) -> list[Any]:
    """Return a request's input as a list of items. A text becomes one user message."""
    if isinstance(conversation, str):
        return [NeMoGymEasyInputMessage(role="user", content=conversation)]
    return [dict(item) if isinstance(item, Mapping) else item for item in conversation or ()]
