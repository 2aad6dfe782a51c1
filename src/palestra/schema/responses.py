"""The Responses API: what is asked of a model and what it answers.

`said`, `called` and `response_of` write an answer by hand: what a perfect model would say, and what
tests let a model say.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

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

    name: str
    parameters: JsonDict | None = None
    strict: bool | None = None
    type: Literal["function"] = "function"
    description: str | None = None


class HostedTool(WireModel):
    """A tool that the provider runs itself; passed through as it came."""

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
    """What a task asks of the model, without streaming.

    `metadata` values are strings; `metadata.extra_body` and `metadata.chat_template_kwargs`
    hold JSON text that the model server merges into its request.
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
        """The text of the last message of the input; empty when there is none."""
        if isinstance(self.input, str):
            return self.input
        texts = (item.text for item in reversed(self.input) if isinstance(item, Message))
        return next(texts, "")


class InputTokensDetails(WireModel):
    """How many input tokens came from the provider's cache."""

    model_config = ConfigDict(frozen=True)

    cached_tokens: int = 0


class OutputTokensDetails(WireModel):
    """How many output tokens were reasoning."""

    model_config = ConfigDict(frozen=True)

    reasoning_tokens: int = 0


class Usage(WireModel):
    """Tokens read and written; over several turns, their sum."""

    input_tokens: int
    input_tokens_details: InputTokensDetails = Field(default_factory=InputTokensDetails)
    output_tokens: int
    output_tokens_details: OutputTokensDetails = Field(default_factory=OutputTokensDetails)
    total_tokens: int


CONTEXT_FULL = "context_full"


class IncompleteDetails(WireModel):
    """Why the model stopped before it was done: `max_output_tokens` or `content_filter`."""

    reason: str | None = None

    @property
    def true_reason(self) -> str:
        """The reason, with a word of its own for a full context, for which clients have none."""
        provider_reason = (self.model_extra or {}).get("stopped_by")
        return (
            provider_reason
            if isinstance(provider_reason, str) and provider_reason
            else self.reason or ""
        )


class Response(WireModel):
    """One answer of a model; of an agent, its whole trajectory in `output`."""

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
        """The text of all messages in the output, joined; empty when there is none."""
        return "".join(item.text for item in self.output if isinstance(item, OutputMessage))

    @property
    def final_text(self) -> str:
        """The text of the last message: the answer, after any tool calls."""
        for item in reversed(self.output):
            if isinstance(item, OutputMessage):
                return item.text
        return ""


_make_usage = maker(Usage)
_make_input_details = maker(InputTokensDetails)
_make_output_details = maker(OutputTokensDetails)

# Frozen, so that the zero that most endpoints report is one object.
_NOTHING_CACHED = InputTokensDetails(cached_tokens=0)
_NO_REASONING = OutputTokensDetails(reasoning_tokens=0)


def cached_tokens(count: int) -> InputTokensDetails:
    """The details of a usage's input."""
    return _make_input_details({"cached_tokens": count}) if count else _NOTHING_CACHED


def reasoning_tokens(count: int) -> OutputTokensDetails:
    """The details of a usage's output."""
    return _make_output_details({"reasoning_tokens": count}) if count else _NO_REASONING


def add_usage(total: Usage | None, turn: Usage | None) -> Usage | None:
    """The sum of two turns' usage; None only when neither is known."""
    if total is None or turn is None:
        return turn if total is None else total
    input_details, written = total.input_tokens_details, total.output_tokens_details
    cached = input_details.cached_tokens + turn.input_tokens_details.cached_tokens
    reasoned = written.reasoning_tokens + turn.output_tokens_details.reasoning_tokens
    return _make_usage(
        {
            "input_tokens": total.input_tokens + turn.input_tokens,
            "input_tokens_details": cached_tokens(cached),
            "output_tokens": total.output_tokens + turn.output_tokens,
            "output_tokens_details": reasoning_tokens(reasoned),
            "total_tokens": total.total_tokens + turn.total_tokens,
        }
    )


_make_part = maker(OutputText)
_make_message = maker(OutputMessage)
_make_call = maker(FunctionCall)


def said(text: str) -> OutputMessage:
    """A message of the model; any text at all, also one that could not be sent."""
    part = _make_part({"text": text, "type": "output_text", "annotations": []})
    fields = {"id": "msg_written", "role": "assistant", "content": [part], "type": "message"}
    return _make_message({**fields, "status": "completed"})


UNNAMED_CALL = "call_1"
"""The id of a call that was given none; a scripted model numbers such calls."""


def called(
    name: str, arguments: JsonObject | str = "{}", call_id: str = UNNAMED_CALL
) -> FunctionCall:
    """A call of a tool; `arguments` as an object, or as the text that a model wrote."""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    fields = {"name": name, "arguments": text, "call_id": call_id, "type": "function_call"}
    return _make_call(fields)


def response_of(*output: OutputItem | str, model: str = "written") -> Response:
    """A response with these items; a text is a message."""
    items = [said(item) if isinstance(item, str) else item for item in output]
    return Response.model_construct(
        id="resp_written",
        created_at=0.0,
        model=model,
        object="response",
        output=items,
        status="completed",
    )
