"""A weather tool at `/mcp`. The model must call it and repeat the sentence that it returns.

The reward is 1.0 when the model called the tool for the row's city, the tool returned its sentence,
and the last message contains that sentence.
"""

from typing import ClassVar

from palestra.resources_servers.arguments import Called
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    called,
    response_of,
)
from palestra.server import ResourcesServer, tool


class City(WireModel):
    """The city that the row asks about."""

    expected_city: str


class McpWeatherVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be verified."""

    verifier_metadata: City


class McpWeatherServer(ResourcesServer):
    """A resources server with a weather tool; the weather is the same in every city."""

    repeatable: ClassVar[bool | None] = True

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response that calls the tool and repeats its sentence."""
        city = row["verifier_metadata"]["expected_city"]
        return response_of(called("get_weather", {"city": city}), sentence(city))

    @tool
    async def get_weather(self, city: str) -> str:
        """Get the current weather for a city.

        city: The city to get the weather for.
        """
        return sentence(city)

    async def verify(self, body: McpWeatherVerifyRequest) -> VerifyResponse:
        """Give reward 1.0 when the model called the tool for the city and repeated its sentence."""
        city = body.verifier_metadata.expected_city
        expected = sentence(city)
        was_told = _was_city_told(body, city, expected)
        mentioned = expected in body.response.final_text
        return self.reply(
            body,
            float(was_told and mentioned),
            expected_weather=expected,
            tool_call_seen=was_told,
            final_response_mentions_weather=mentioned,
        )


def sentence(city: str) -> str:
    """Return the sentence that the tool returns for a city."""
    return f"The weather in {city} is sunny and 72 F."


def _was_city_told(body: VerifyRequest, city: str, expected: str) -> bool:
    """Whether the model called the tool for this city and got the expected sentence back."""
    output = body.response.output
    calls = {
        item.call_id
        for item in output
        if isinstance(item, FunctionCall) and Called.of(item).is_call("get_weather", {"city": city})
    }
    return any(
        isinstance(item, FunctionCallOutput) and item.call_id in calls and item.output == expected
        for item in output
    )
