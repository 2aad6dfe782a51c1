"""The required keys of the dicts in requests, for each known `type`. More keys are always allowed.

A dict of an unlisted `type` needs only the key `type`.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Required, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    StrictBool,
    Tag,
    ValidatorFunctionWrapHandler,
    with_config,
)
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from palestra.compat.openai_types.base import OpenDict, field_of
from palestra.compat.openai_types.tokens import token_metadata_of

_open = with_config(ConfigDict(extra="allow"))


@_open
class _Typed(TypedDict):
    type: str


@_open
class _Text(TypedDict):
    text: str


@_open
class _Refusal(TypedDict):
    refusal: str


@_open
class _Function(TypedDict, total=False):
    name: Required[str]
    description: str | None
    parameters: dict[str, Any] | None
    strict: StrictBool | None


@_open
class _ChatFunction(TypedDict):
    function: _Function


@_open
class _Called(TypedDict):
    name: str
    arguments: str


@_open
class _Reasoning(TypedDict, total=False):
    effort: str | None
    summary: str | None


def _by_type(tag_of_kind: Mapping[str, str]) -> Callable[[Any], str]:
    def tag(value: Any) -> str:
        kind = value.get("type") if type(value) is dict else field_of(value, "type")
        return tag_of_kind.get(kind, "other") if isinstance(kind, str) else "other"

    return tag


class Typed(OpenDict):
    """Any object with a `type` key."""

    __shape__ = _Typed


class Part(OpenDict):
    """One part of a message's content."""

    __shape__ = Annotated[
        Annotated[_Text, Tag("text")]
        | Annotated[_Refusal, Tag("refusal")]
        | Annotated[_Typed, Tag("other")],
        Discriminator(
            _by_type(
                {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
            )
        ),
    ]


Content = str | list[Part]


class ToolEntry(OpenDict):
    """A tool that the model may call, or that its provider runs."""

    __shape__ = Annotated[
        Annotated[_Function, Tag("function")] | Annotated[_Typed, Tag("other")],
        Discriminator(_by_type({"function": "function"})),
    ]


class ChatToolEntry(OpenDict):
    """A tool in the form of Chat Completions."""

    __shape__ = Annotated[
        Annotated[_ChatFunction, Tag("function")] | Annotated[_Typed, Tag("other")],
        Discriminator(_by_type({"function": "function"})),
    ]


class ReasoningSettings(OpenDict):
    """The settings of the model's reasoning: effort and summary."""

    __shape__ = _Reasoning


class _CalledDict(OpenDict):
    __shape__ = _Called


@_open
class _FunctionCall(TypedDict):
    id: str
    function: _CalledDict


class _ToolCall(OpenDict):
    __shape__ = Annotated[
        Annotated[_FunctionCall, Tag("function")] | Annotated[_Typed, Tag("other")],
        Discriminator(_by_type({"function": "function"})),
    ]


@_open
class _Told(TypedDict):
    content: Content


@_open
class _Answered(TypedDict):
    content: Content
    tool_call_id: str


@_open
class _Said(TypedDict, total=False):
    content: Content | None
    tool_calls: list[_ToolCall] | None


_BY_ROLE = {
    "system": "told",
    "developer": "told",
    "user": "told",
    "assistant": "said",
    "tool": "answered",
}


def _role(value: Any) -> str | None:
    role = field_of(value, "role")
    return _BY_ROLE.get(role) if isinstance(role, str) else None


class OpenChatMessage(OpenDict):
    """A message of a Chat Completions request."""

    __shape__ = Annotated[
        Annotated[_Told, Tag("told")]
        | Annotated[_Said, Tag("said")]
        | Annotated[_Answered, Tag("answered")],
        Discriminator(
            _role,
            custom_error_type="message_without_role",
            custom_error_message="a message needs a `role` that there is",
        ),
    ]

    @classmethod
    def _checked(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Self:
        token_metadata_of(value)
        return super()._checked(value, check)


ToolChoice = Literal["none", "auto", "required"] | Typed


@_open
class _TextSettings(TypedDict, total=False):
    format: Typed | None
    verbosity: str | None


class TextSettings(OpenDict):
    """The settings of the response's text: format and verbosity."""

    __shape__ = _TextSettings
