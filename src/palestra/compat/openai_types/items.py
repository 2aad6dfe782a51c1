"""Types of the items of a Responses API conversation, under the names that existing environments
use.

An item of an unlisted kind is kept as `NeMoGymUnknownItem`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import ConfigDict, Discriminator, Field, Tag

from palestra.compat.openai_types.base import Named, OpenAIModel, field_of
from palestra.compat.openai_types.shapes import Content, Part
from palestra.compat.openai_types.tokens import (
    TOKEN_METADATA_FIELDS,
    TokenCarrier,
    TokenIDLogProbMixin,
    has_token_metadata,
)


class NeMoGymSummary(Named):
    """One block of reasoning text."""

    text: str
    type: Literal["summary_text"] = "summary_text"


class NeMoGymResponseReasoningItem(Named, TokenCarrier):
    """The reasoning of the model before its answer.

    Fields that are not declared here are dropped: OpenAI refuses a reasoning item with a `status`.
    """

    model_config = ConfigDict(extra="ignore")
    __told_by__ = frozenset({"id", "type", "summary"})

    id: str = Field(default_factory=lambda: f"rs_{uuid4().hex}")
    summary: list[NeMoGymSummary] = Field(default_factory=list)
    type: Literal["reasoning"] = "reasoning"
    encrypted_content: str | None = None
    content: list[Part] | None = None


class NeMoGymResponseOutputText(Named):
    """Text that the model wrote."""

    annotations: list[Any] = Field(default_factory=list)
    text: str
    type: Literal["output_text"] = "output_text"
    logprobs: list[Any] | None = None


class NeMoGymResponseOutputRefusal(Named):
    """A refusal: the model declined, with its reason as text."""

    refusal: str
    type: Literal["refusal"] = "refusal"


def _part_tag(value: Any) -> str:
    kind = field_of(value, "type")
    if kind == "refusal":
        return "refusal"
    return "output_text" if kind == "output_text" else "other"


NeMoGymContent = Annotated[
    Annotated[NeMoGymResponseOutputText, Tag("output_text")]
    | Annotated[NeMoGymResponseOutputRefusal, Tag("refusal")]
    | Annotated[Part, Tag("other")],
    Discriminator(_part_tag),
]


class NeMoGymResponseOutputMessage(Named, TokenCarrier):
    """A message that the model wrote."""

    __told_by__ = frozenset({"id", "role", "type"})

    id: str = Field(default_factory=lambda: f"msg_{uuid4().hex}")
    content: list[NeMoGymContent]
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = "completed"
    type: Literal["message"] = "message"


class NeMoGymEasyInputMessage(TokenCarrier):
    """A message of any role. The content is text, or a list of parts, which are dicts."""

    content: Content
    role: Literal["user", "assistant", "system", "developer"]
    type: Literal["message"] = "message"


class NeMoGymMessage(TokenCarrier):
    """An input message to the model. The content is a list of parts, which are dicts."""

    content: list[Part]
    role: Literal["user", "system", "developer"]
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    type: Literal["message"] = "message"


class NeMoGymResponseFunctionToolCall(Named, TokenCarrier):
    """A tool call of the model. `arguments` is the JSON text exactly as the model wrote it."""

    arguments: str
    call_id: str
    name: str
    type: Literal["function_call"] = "function_call"
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class NeMoGymFunctionCallOutput(Named, TokenCarrier):
    """The result of a tool call."""

    call_id: str
    output: Content
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class NeMoGymUnknownItem(TokenCarrier):
    """An item of an unlisted kind, kept unchanged."""

    type: str


class NeMoGymResponseReasoningItemForTraining(NeMoGymResponseReasoningItem, TokenIDLogProbMixin):
    """A reasoning item with its token ids."""


class NeMoGymResponseOutputMessageForTraining(NeMoGymResponseOutputMessage, TokenIDLogProbMixin):
    """An output message with its token ids."""


class NeMoGymEasyInputMessageForTraining(NeMoGymEasyInputMessage, TokenIDLogProbMixin):
    """A message in short form, with its token ids."""


class NeMoGymMessageForTraining(NeMoGymMessage, TokenIDLogProbMixin):
    """An input message with its token ids."""


class NeMoGymResponseFunctionToolCallForTraining(
    NeMoGymResponseFunctionToolCall, TokenIDLogProbMixin
):
    """A tool call with its token ids."""


_WRITTEN = frozenset({"output_text", "refusal"})

_KINDS: dict[str, type[OpenAIModel]] = {
    "output_message": NeMoGymResponseOutputMessage,
    "easy": NeMoGymEasyInputMessage,
    "message": NeMoGymMessage,
    "reasoning": NeMoGymResponseReasoningItem,
    "function_call": NeMoGymResponseFunctionToolCall,
    "function_call_output": NeMoGymFunctionCallOutput,
}


_TAG_OF_TYPE = {kind: kind for kind in ("reasoning", "function_call", "function_call_output")}
_UNTRAINED = frozenset({"function_call_output", "unknown"})


def _item_tag(value: Any) -> str:
    if type(value) is dict and TOKEN_METADATA_FIELDS.isdisjoint(value):
        kind = value.get("type")
        if isinstance(kind, str) and kind in _TAG_OF_TYPE:
            return _TAG_OF_TYPE[kind]
    if isinstance(value, OpenAIModel):
        return _tag_of_object(value)
    kind = field_of(value, "type")
    tag = _TAG_OF_TYPE.get(kind, "unknown") if isinstance(kind, str) else "unknown"
    if kind == "message" or (kind is None and field_of(value, "role") is not None):
        tag = _message_tag(value)
    return f"{tag}_trained" if tag not in _UNTRAINED and has_token_metadata(value) else tag


def _tag_of_object(item: OpenAIModel) -> str:
    tag, may_have_tokens = _tag_of_class(type(item))
    return f"{tag}_trained" if may_have_tokens and has_token_metadata(item) else tag


@cache
def _tag_of_class(item_class: type) -> tuple[str, bool]:
    """Return the tag of the items of a class, and whether they can have token fields."""
    tags = (tag for tag, kind in _KINDS.items() if issubclass(item_class, kind))
    return next(tags, "unknown"), issubclass(item_class, TokenIDLogProbMixin)


def _message_tag(value: Any) -> str:
    content = field_of(value, "content")
    if not isinstance(content, list):
        return "easy"
    if field_of(value, "role") == "assistant":
        written = all(field_of(part, "type") in _WRITTEN for part in content)
        return "output_message" if written else "easy"
    has_status = isinstance(value, Mapping) and value.get("status") is not None
    return "message" if has_status else "easy"


NeMoGymResponseOutputItem = Annotated[
    Annotated[NeMoGymResponseOutputMessage, Tag("output_message")]
    | Annotated[NeMoGymEasyInputMessage, Tag("easy")]
    | Annotated[NeMoGymMessage, Tag("message")]
    | Annotated[NeMoGymResponseReasoningItem, Tag("reasoning")]
    | Annotated[NeMoGymResponseFunctionToolCall, Tag("function_call")]
    | Annotated[NeMoGymFunctionCallOutput, Tag("function_call_output")]
    | Annotated[NeMoGymResponseOutputMessageForTraining, Tag("output_message_trained")]
    | Annotated[NeMoGymEasyInputMessageForTraining, Tag("easy_trained")]
    | Annotated[NeMoGymMessageForTraining, Tag("message_trained")]
    | Annotated[NeMoGymResponseReasoningItemForTraining, Tag("reasoning_trained")]
    | Annotated[NeMoGymResponseFunctionToolCallForTraining, Tag("function_call_trained")]
    | Annotated[NeMoGymUnknownItem, Tag("unknown")],
    Discriminator(_item_tag),
]
NeMoGymResponseInputItem = NeMoGymResponseOutputItem
NeMoGymResponseInput = list[NeMoGymResponseInputItem]
