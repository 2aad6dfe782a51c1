"""A weather tool at `/mcp`; the model must call it and repeat what it says.

The reward is 1.0 when the tool was called for the row's city, the sentence came back, and the
model's last message holds it.
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
    """Which city the row asks about."""

    expected_city: str


class McpWeatherVerifyRequest(VerifyRequest):
    """What a row must say for its answer to be judged."""

    verifier_metadata: City


class McpWeatherServer(ResourcesServer):
    """It is 72 F everywhere."""

    repeatable: ClassVar[bool | None] = True

    def gold_response(self, row: JsonObject) -> Response | None:
        """The tool called, and what it says repeated."""
        city = row["verifier_metadata"]["expected_city"]
        return response_of(called("get_weather", {"city": city}), sentence(city))

    @tool
    async def get_weather(self, city: str) -> str:
        """Get the current weather for a city.

        city: The city to get the weather for.
        """
        return sentence(city)

    async def verify(self, body: McpWeatherVerifyRequest) -> VerifyResponse:
        """Whether the tool was asked about the city, and its sentence repeated."""
        city = body.verifier_metadata.expected_city
        expected = sentence(city)
        seen = _told(body, city, expected)
        mentioned = expected in body.response.final_text
        return self.reply(
            body,
            float(seen and mentioned),
            expected_weather=expected,
            tool_call_seen=seen,
            final_response_mentions_weather=mentioned,
        )


def sentence(city: str) -> str:
    """What the tool says."""
    return f"The weather in {city} is sunny and 72 F."


def _told(body: VerifyRequest, city: str, expected: str) -> bool:
    """Whether a call of the tool for this city was answered with its sentence."""
    output = body.response.output
    asked = {
        item.call_id
        for item in output
        if isinstance(item, FunctionCall) and Called.of(item).is_call("get_weather", {"city": city})
    }
    return any(
        isinstance(item, FunctionCallOutput) and item.call_id in asked and item.output == expected
        for item in output
    )
