"""The Responses API: requests to a model and its responses.

`said`, `called` and `response_of` build responses by hand, for reference answers and for tests.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import ConfigDict, Discriminator, Field, Tag

from palestra.schema.items import (
    FunctionCall,
    InputItem,
    Message,
    OutputItem,
    OutputMessage,
    OutputText,
    WireModel,
)
from palestra.schema.json_types import JsonDict, JsonObject
from palestra.schema.unchecked import maker


class FunctionTool(WireModel):
    """A tool that the model may call; `parameters` is a JSON Schema."""

    always_sent: ClassVar[tuple[str, ...]] = ("type",)

    name: str
    parameters: JsonDict | None = None
    strict: bool | None = None
    type: Literal["function"] = "function"
    description: str | None = None


class HostedTool(WireModel):
    """A tool that the provider runs itself. It is passed on unchanged."""

    type: str


def _tool_tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, (dict, Mapping)) else getattr(value, "type", None)
    if kind is None:
        return None
    return "function" if kind == "function" else "hosted"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")] | Annotated[HostedTool, Tag("hosted")],
    Discriminator(
        _tool_tag,
        custom_error_type="tool_without_type",
        custom_error_message='a tool needs a `type`, "function" for one of your own',
    ),
]


class ResponseCreateParams(WireModel):
    """The request parameters of a model call, without streaming.

    `metadata`: its values are strings. `metadata.extra_body` and `metadata.chat_template_kwargs`
    contain JSON text that the model server merges into its request.
    """

    input: str | list[InputItem]
    instructions: str | None = None
    model: str | None = None
    tools: list[Tool] = Field(default_factory=list)
    tool_choice: str | JsonDict | None = "auto"
    parallel_tool_calls: bool | None = True
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    metadata: JsonDict | None = None
    reasoning: JsonDict | None = None
    text: JsonDict | None = None
    include: list[str] | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    prompt: JsonDict | None = None
    service_tier: str | None = None
    store: bool | None = None
    truncation: str | None = None
    user: str | None = None
    stream: Literal[False] | None = None

    @property
    def last_message(self) -> str:
        """The text of the last message in the input; empty without a message."""
        if isinstance(self.input, str):
            return self.input
        texts = (item.text for item in reversed(self.input) if isinstance(item, Message))
        return next(texts, "")


class InputTokensDetails(WireModel):
    """The number of input tokens that came from the provider's cache; None when it is unknown."""

    model_config = ConfigDict(frozen=True)

    cached_tokens: int | None = None


class OutputTokensDetails(WireModel):
    """The number of output tokens that were reasoning; None when it is unknown."""

    model_config = ConfigDict(frozen=True)

    reasoning_tokens: int | None = None


class Usage(WireModel):
    """The numbers of input and output tokens; for several turns, their sums."""

    input_tokens: int
    input_tokens_details: InputTokensDetails = Field(default_factory=lambda: cached_tokens(None))
    output_tokens: int
    output_tokens_details: OutputTokensDetails = Field(
        default_factory=lambda: reasoning_tokens(None)
    )
    total_tokens: int


CONTEXT_FULL = "context_full"


class IncompleteDetails(WireModel):
    """The reason why the model stopped early: `max_output_tokens` or `content_filter`."""

    reason: str | None = None

    @property
    def true_reason(self) -> str:
        """The exact reason. A full context has a separate value here, because the API has none for
        it.
        """
        provider_reason = (self.model_extra or {}).get("stopped_by")
        return (
            provider_reason
            if isinstance(provider_reason, str) and provider_reason
            else self.reason or ""
        )


class Response(WireModel):
    """One response of a model. For an agent, `output` contains the whole trajectory."""

    id: str
    created_at: float
    model: str
    object: Literal["response"] = "response"
    output: list[OutputItem]
    usage: Usage | None = None
    incomplete_details: IncompleteDetails | None = None
    error: Any = None
    status: str | None = None
    instructions: Any = None
    metadata: JsonDict | None = None
    parallel_tool_calls: bool | None = True
    temperature: float | None = None
    tool_choice: str | JsonDict | None = "auto"
    tools: list[Tool] = Field(default_factory=list)
    top_p: float | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    reasoning: Any = None
    text: Any = None
    truncation: str | None = None
    user: str | None = None

    @property
    def output_text(self) -> str:
        """The joined text of all messages in the output; empty without messages."""
        return "".join(item.text for item in self.output if isinstance(item, OutputMessage))

    @property
    def final_text(self) -> str:
        """The text of the last message, which is the answer after any tool calls; empty without
        messages.
        """
        for item in reversed(self.output):
            if isinstance(item, OutputMessage):
                return item.text
        return ""


_make_usage = maker(Usage)
_make_input_details = maker(InputTokensDetails)
_make_output_details = maker(OutputTokensDetails)

# Frozen, so that what most endpoints report (nothing, or 0) is one object.
_CACHED_UNKNOWN = InputTokensDetails(cached_tokens=None)
_NOTHING_CACHED = InputTokensDetails(cached_tokens=0)
_REASONING_UNKNOWN = OutputTokensDetails(reasoning_tokens=None)
_NO_REASONING = OutputTokensDetails(reasoning_tokens=0)


def cached_tokens(count: int | None) -> InputTokensDetails:
    """Return the input details of a usage with `count` cached tokens; None: it is unknown."""
    if count is None:
        return _CACHED_UNKNOWN
    return _make_input_details({"cached_tokens": count}) if count else _NOTHING_CACHED


def reasoning_tokens(count: int | None) -> OutputTokensDetails:
    """Return the output details of a usage with `count` reasoning tokens; None: it is unknown."""
    if count is None:
        return _REASONING_UNKNOWN
    return _make_output_details({"reasoning_tokens": count}) if count else _NO_REASONING


def add_usage(total: Usage | None, turn: Usage | None) -> Usage | None:
    """Return the sum of two usages; None only when both are None.

    A detail that one of the two does not know is unknown in the sum.
    """
    if total is None or turn is None:
        return turn if total is None else total
    input_details, written = total.input_tokens_details, total.output_tokens_details
    cached = _sum(input_details.cached_tokens, turn.input_tokens_details.cached_tokens)
    reasoned = _sum(written.reasoning_tokens, turn.output_tokens_details.reasoning_tokens)
    return _make_usage(
        {
            "input_tokens": total.input_tokens + turn.input_tokens,
            "input_tokens_details": cached_tokens(cached),
            "output_tokens": total.output_tokens + turn.output_tokens,
            "output_tokens_details": reasoning_tokens(reasoned),
            "total_tokens": total.total_tokens + turn.total_tokens,
        }
    )


def _sum(count: int | None, added: int | None) -> int | None:
    return None if count is None or added is None else count + added


_make_part = maker(OutputText)
_make_message = maker(OutputMessage)
_make_call = maker(FunctionCall)


def said(text: str) -> OutputMessage:
    """Return a message of the model with this text, which is not validated."""
    part = _make_part({"text": text, "type": "output_text", "annotations": []})
    fields = {"id": "msg_written", "role": "assistant", "content": [part], "type": "message"}
    return _make_message({**fields, "status": "completed"})


UNNAMED_CALL = "call_1"
"""The default id of a call made by `called`. A scripted model replaces such ids by numbered ones.
"""


def called(
    name: str, arguments: JsonObject | str = "{}", call_id: str = UNNAMED_CALL
) -> FunctionCall:
    """Return a tool call. `arguments`: an object, or the JSON text that a model would write."""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    fields = {"name": name, "arguments": text, "call_id": call_id, "type": "function_call"}
    return _make_call(fields)


def response_of(*output: OutputItem | str, model: str = "written") -> Response:
    """Return a response with these output items. A string becomes a message."""
    items = [said(item) if isinstance(item, str) else item for item in output]
    return Response.model_construct(
        id="resp_written",
        created_at=0.0,
        model=model,
        object="response",
        output=items,
        status="completed",
    )
