"""Items of a Responses API conversation: the model's input and output.

Every object keeps unknown fields. An item of an unlisted type becomes an `UnknownItem`, so items of
newer endpoints or of an environment are never lost.

Items from a model in training may have `prompt_token_ids`, `generation_token_ids` and
`generation_log_probs` (one list each; the last two have equal length). These lists are long and are
checked where they are created, so they are not validated again at each server.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SkipValidation,
    Tag,
    WithJsonSchema,
)
from pydantic.config import JsonDict


class WireModel(BaseModel):
    """A JSON object of the protocol. Unknown fields are kept."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    always_sent: ClassVar[tuple[str, ...]] = ()
    """Fields that are written even when an author left them to their defaults. Receivers tell the
    types of a union apart by them."""

    if not TYPE_CHECKING:  # a type checker knows the fields as arguments without it

        def __init__(self, /, **values: Any) -> None:
            super().__init__(**values)
            if self.always_sent:
                self.__pydantic_fields_set__.update(self.always_sent)

        # Pydantic calls an `__init__` of one's own for each validated object too, which is slow and
        # not needed: what was validated had these fields. With this mark it does not.
        __init__.__pydantic_base_init__ = True


_UNCHECKED = WithJsonSchema({"description": "numbers, or null; not checked here"})


class Item(WireModel):
    """The optional fields of every conversation item."""

    prompt_token_ids: Annotated[SkipValidation[list[int] | None], _UNCHECKED] = None
    generation_token_ids: Annotated[SkipValidation[list[int] | None], _UNCHECKED] = None
    generation_log_probs: Annotated[SkipValidation[list[float] | None], _UNCHECKED] = None


class InputText(WireModel):
    """Text given to the model."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    text: str
    type: Literal["input_text"] = "input_text"


class InputImage(WireModel):
    """An image given to the model, by URL or data URL."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class OutputText(WireModel):
    """Text written by the model."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[Any] = Field(default_factory=list)
    logprobs: Any = None


class Refusal(WireModel):
    """The model declined; `refusal` is its explanation."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    refusal: str
    type: Literal["refusal"] = "refusal"


def _other_than(kinds: frozenset[str]) -> Any:
    """Return a type field for unlisted types. Its JSON Schema excludes the listed `kinds`."""
    left_out: JsonDict = {"not": {"enum": [*sorted(kinds)]}}
    return Field(json_schema_extra=left_out)


_PART_TYPES = frozenset({"input_text", "input_image", "output_text", "refusal"})


class UnknownPart(WireModel):
    """A content part of an unlisted type, kept unchanged."""

    type: str = _other_than(_PART_TYPES)


# Nearly always a dict, which is found at once; the abstract class alone takes twice as long.
_OBJECT = (dict, Mapping)


def _type_of(value: Any) -> str | None:
    if isinstance(value, _OBJECT):
        kind = value.get("type")
        return kind if isinstance(kind, str) else None
    return getattr(value, "type", None)


def _part_tag(value: Any) -> str | None:
    kind = _type_of(value)
    return kind if kind is None or kind in _PART_TYPES else "unknown"


ContentPart = Annotated[
    Annotated[InputText, Tag("input_text")]
    | Annotated[InputImage, Tag("input_image")]
    | Annotated[OutputText, Tag("output_text")]
    | Annotated[Refusal, Tag("refusal")]
    | Annotated[UnknownPart, Tag("unknown")],
    Discriminator(_part_tag),
]


INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
"""The roles of messages that instruct the model before the user speaks."""
PROMPT_ROLES: Final = INSTRUCTION_ROLES | {"user"}
"""The roles of messages that the model reads and did not write."""


class Message(Item):
    """A message in the model's input: plain text or content parts."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[ContentPart]
    type: Literal["message"] = "message"
    id: str | None = None
    status: str | None = None

    @property
    def text(self) -> str:
        """All text of the message, parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(
            part.text for part in self.content if isinstance(part, InputText | OutputText)
        )


class OutputMessage(Message):
    """A message that the model wrote."""

    always_sent: ClassVar[tuple[str, ...]] = ("type", "role")

    role: Literal["assistant"] = "assistant"
    content: list[ContentPart]


class FunctionCall(Item):
    """A tool call by the model. `arguments`: the JSON text exactly as the model wrote it."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    name: str
    arguments: str
    call_id: str
    type: Literal["function_call"] = "function_call"
    id: str | None = None
    status: str | None = None


class FunctionCallOutput(Item):
    """The output of a tool call."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    call_id: str
    output: str | list[Any]
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    status: str | None = None


class SummaryText(WireModel):
    """One text block of a reasoning item."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    text: str
    type: Literal["summary_text"] = "summary_text"


class Reasoning(Item):
    """The model's reasoning before its answer, with one summary part per block."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    id: str | None = None
    summary: list[SummaryText] = Field(default_factory=list)
    type: Literal["reasoning"] = "reasoning"
    content: list[Any] | None = None
    encrypted_content: str | None = None
    status: str | None = None


_NEVER_MESSAGES = frozenset({"function_call", "function_call_output", "reasoning"})
_ITEM_TYPES = _NEVER_MESSAGES | {"message"}


class UnknownItem(Item):
    """An item of an unlisted type, kept unchanged."""

    type: str = _other_than(_ITEM_TYPES)


def _item_tag(value: Any) -> str | None:
    if type(value) is dict:
        # Nearly all that comes: a dict of a listed type is recognized without a further call.
        kind = value.get("type")
        if isinstance(kind, str):
            return kind if kind in _ITEM_TYPES else "unknown"
    kind = _type_of(value)
    if kind is None:
        # "Easy" messages carry a role and no type.
        has_role = "role" in value if isinstance(value, _OBJECT) else hasattr(value, "role")
        return "message" if has_role else None
    return kind if kind in _ITEM_TYPES else "unknown"


InputItem = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[Reasoning, Tag("reasoning")]
    | Annotated[UnknownItem, Tag("unknown")],
    Discriminator(
        _item_tag,
        custom_error_type="item_without_type",
        custom_error_message="an input item needs a `type`, or a `role` if it is a message",
    ),
]


def _output_tag(value: Any) -> str | None:
    if type(value) is dict:
        kind = value.get("type")
        if isinstance(kind, str) and kind in _NEVER_MESSAGES:
            return kind
    tag = _item_tag(value)
    if tag != "message":
        return tag
    # A trajectory may hold turns that an environment spoke, as easy messages.
    if isinstance(value, _OBJECT):
        role, content = value.get("role"), value.get("content")
    else:
        role, content = value.role, value.content
    # Not a set's membership: a role may be a list.
    spoken_by_model = (role is None or role == "assistant") and not isinstance(content, str)
    return "message" if spoken_by_model else "other_message"


OutputItem = Annotated[
    Annotated[OutputMessage, Tag("message")]
    | Annotated[Message, Tag("other_message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[Reasoning, Tag("reasoning")]
    | Annotated[UnknownItem, Tag("unknown")],
    Discriminator(
        _output_tag,
        custom_error_type="item_without_type",
        custom_error_message="an output item needs a `type`",
    ),
]
