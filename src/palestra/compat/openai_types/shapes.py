"""What the dicts of requests must hold, as far as it is known; more keys are always fine.

A dict of a `type` that is not listed here needs nothing but that type.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, Discriminator, StrictBool, Tag, with_config
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from palestra.compat.openai_types.base import OpenDict, field_of

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
        kind = field_of(value, "type")
        return tag_of_kind.get(kind, "other") if isinstance(kind, str) else "other"

    return tag


class Typed(OpenDict):
    """Anything of which its `type` says what it is."""

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
    """The same as Chat Completions has it."""

    __shape__ = Annotated[
        Annotated[_ChatFunction, Tag("function")] | Annotated[_Typed, Tag("other")],
        Discriminator(_by_type({"function": "function"})),
    ]


class Reasoning(OpenDict):
    """How much the model shall think."""

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


class ChatMessage(OpenDict):
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


ToolChoice = Literal["none", "auto", "required"] | Typed


@_open
class _TextSettings(TypedDict, total=False):
    format: Typed | None
    verbosity: str | None


class TextSettings(OpenDict):
    """How the text of the answer shall look."""

    __shape__ = _TextSettings
