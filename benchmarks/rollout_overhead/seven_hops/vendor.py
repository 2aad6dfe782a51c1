"""The bodies of the baseline with the response types that the field uses: the `openai` package's.

The same names as in `wire`, so that the servers run with either. Items are told apart by trying
one type after the other, because the package's unions carry no discriminator that pydantic reads.
"""

from typing import Literal

from openai.types.responses import (
    EasyInputMessage,
    ResponseFunctionToolCall,
    ResponseIncludable,
    ResponseInputItem,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponsePromptParam,
    ResponseReasoningItem,
    ResponseTextConfigParam,
    Tool,
)
from openai.types.responses import Response as VendorResponse
from openai.types.responses.response_create_params import ToolChoice
from openai.types.responses.response_input_item import FunctionCallOutput as Output
from openai.types.shared_params import Reasoning
from pydantic import BaseModel, ConfigDict, Field

from benchmarks.rollout_overhead.seven_hops.wire import Nothing, Weather, Wire

Thought = ResponseReasoningItem
Said = ResponseOutputMessage
Call = ResponseFunctionToolCall


class Params(BaseModel):
    """What is asked of a model, every parameter of the package's by its type."""

    model_config = ConfigDict(extra="forbid")

    input: str | list[EasyInputMessage | ResponseInputItem]
    background: bool | None = None
    include: list[ResponseIncludable] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    model: str | None = None
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    prompt: ResponsePromptParam | None = None
    reasoning: Reasoning | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    store: bool | None = None
    stream: Literal[False] | None = None
    temperature: float | None = None
    text: ResponseTextConfigParam | None = None
    tool_choice: ToolChoice = "auto"
    tools: list[Tool] = Field(default_factory=list)
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str | None = None


class Response(VendorResponse):
    """The package's response; an agent's also holds what its tools answered."""

    # In front: the trial is the shorter the earlier its type comes.
    output: list[Output | ResponseOutputItem]  # type: ignore[assignment]


class Row(Wire):
    """A task row."""

    responses_create_params: Params


class Trajectory(Row):
    """A row and what the agent made of it."""

    response: Response


class Rewarded(Trajectory):
    """What `verify` answers."""

    reward: float


__all__ = [
    "Call",
    "Nothing",
    "Output",
    "Params",
    "Response",
    "Rewarded",
    "Row",
    "Said",
    "Thought",
    "Trajectory",
    "Weather",
]
