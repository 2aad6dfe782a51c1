"""The bodies of the baseline, as slim pydantic models."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Wire(BaseModel):
    """Unknown fields are kept."""

    model_config = ConfigDict(extra="allow")


class Easy(Wire):
    """An input message."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str


class Text(Wire):
    """Text that the model wrote."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = Field(default_factory=list)


class Said(Wire):
    """A message that the model wrote."""

    type: Literal["message"] = "message"
    id: str
    role: Literal["assistant"] = "assistant"
    content: list[Text]
    status: str = "completed"


class Call(Wire):
    """A function call."""

    type: Literal["function_call"] = "function_call"
    id: str
    call_id: str
    name: str
    arguments: str
    status: str = "completed"


class Output(Wire):
    """A tool's output."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: str
    output: str


class Summary(Wire):
    """A block of reasoning."""

    type: Literal["summary_text"] = "summary_text"
    text: str


class Thought(Wire):
    """A reasoning item."""

    type: Literal["reasoning"] = "reasoning"
    id: str
    summary: list[Summary]


Item = Annotated[Said | Call | Output | Thought, Field(discriminator="type")]


class Tool(Wire):
    """A function tool."""

    type: Literal["function"] = "function"
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Params(Wire):
    """What is asked of a model."""

    input: str | list[Item | Easy]
    tools: list[Tool] = Field(default_factory=list)
    max_output_tokens: int | None = None
    temperature: float | None = None


class Usage(Wire):
    """Token counts."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class Response(Wire):
    """What a model, or an agent, answers."""

    id: str
    created_at: float
    model: str
    object: Literal["response"] = "response"
    output: list[Item]
    usage: Usage | None = None
    tools: list[Tool] = Field(default_factory=list)
    parallel_tool_calls: bool = True
    tool_choice: str = "auto"


class Row(Wire):
    """A task row."""

    responses_create_params: Params


class Trajectory(Row):
    """A row and what the agent made of it."""

    response: Response


class Rewarded(Trajectory):
    """What `verify` answers."""

    reward: float


class Weather(Wire):
    """The tool's arguments."""

    city: str


class Nothing(Wire):
    """An empty answer."""
