"""`StepServer`: compares the model's next step with the expected step of the conversation.

A step is a message to the user or one function call. For an expected message, any message is right;
its text is not compared. A call is compared by its tool and its arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator

from palestra.resources_servers.arguments import Called, exact_object, json_object, same_value
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    JsonDict,
    JsonObject,
    OutputMessage,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    called,
    response_of,
)
from palestra.server import ResourcesServer, ResourcesServerConfig


class ExpectedMessage(WireModel):
    """The expected step is a message to the user. Its `content` is only an example."""

    type: Literal["message"]
    content: str = ""


class ExpectedFunctionCall(WireModel):
    """The expected step is a function call."""

    type: Literal["function_call"]
    name: str = Field(min_length=1)
    arguments: str
    """The arguments as a model writes them: a JSON object."""

    @field_validator("arguments")
    @classmethod
    def _is_an_object(cls, text: str) -> str:
        if json_object(text) is None:
            raise ValueError("not a JSON object")
        return text


class StepVerifyRequest(VerifyRequest):
    """The fields that a row needs for its step to be verified."""

    expected_action: Annotated[ExpectedMessage | ExpectedFunctionCall, Field(discriminator="type")]


class StepServerConfig(ResourcesServerConfig):
    """The settings of this environment."""

    ignored_arguments: dict[str, list[str]] = Field(default_factory=dict)
    """For each tool, the arguments that may have any value, like a free text summary. The tool `*`
    stands for every tool."""


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """Whether the step is right, and a category that describes it."""

    right: bool
    category: str


class StepServer(ResourcesServer):
    """A resources server that verifies the first step of the response."""

    config: StepServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the expected call; None where any message, or any call of the tool, is right."""
        due = row["expected_action"]
        if due["type"] == "message":
            return None
        if not _without(json_object(due["arguments"]) or {}, self._ignored(due["name"])):
            return None
        return response_of(called(due["name"], due["arguments"]))

    async def verify(self, body: StepVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 for the expected step; else 0.0. `category` describes the step."""
        judged = self._judged(body.expected_action, body.response)
        return self.reply(body, float(judged.right), category=judged.category)

    def _judged(
        self, expected: ExpectedMessage | ExpectedFunctionCall, response: Response
    ) -> CallVerdict:
        calls = first_step_calls(response)
        if isinstance(expected, ExpectedMessage):
            if calls:
                return CallVerdict(False, "A tool call was found when a chat message was expected")
            if not _has_text(response):
                return CallVerdict(False, "No chat message was found when one was expected")
            return CallVerdict(True, "A chat message was found as expected")
        if not calls:
            return CallVerdict(False, "No tool call was found when one was expected")
        if len(calls) > 1:
            return CallVerdict(False, "Several tool calls were found when one was expected")
        return self._call(expected, calls[0])

    def _call(self, expected: ExpectedFunctionCall, called: Called) -> CallVerdict:
        if called.name != expected.name:
            return CallVerdict(False, "A call of another tool than the expected one was found")
        if called.exact is None:
            return CallVerdict(False, "The arguments of the tool call are not a JSON object")
        ignored = self._ignored(called.name)
        expected_arguments = exact_object(expected.arguments) or {}
        if not same_value(_without(expected_arguments, ignored), _without(called.exact, ignored)):
            return CallVerdict(
                False, "The arguments of the tool call differ from the expected ones"
            )
        return CallVerdict(True, "The expected tool call was found")

    def _ignored(self, tool: str) -> set[str]:
        by_tool = self.config.ignored_arguments
        return {*by_tool.get(tool, ()), *by_tool.get("*", ())}


def first_step_calls(response: Response) -> Sequence[Called]:
    """Return the calls of the first turn. Everything after a tool's output is another step."""
    calls = []
    for item in response.output:
        if isinstance(item, FunctionCallOutput):
            break
        if isinstance(item, FunctionCall):
            calls.append(Called.of(item))
    return calls


def _has_text(response: Response) -> bool:
    return any(isinstance(item, OutputMessage) and item.text.strip() for item in response.output)


def _without(arguments: JsonObject, names: set[str]) -> JsonDict:
    return {name: value for name, value in arguments.items() if name not in names}
