"""One weather call with three reward components; the reward is their sum.

- `correctness`: exactly one call, of the expected tool with the expected arguments.
- `schema_valid`: every call names a tool of the row, and its arguments fit the tool's schema.
- `format`: the whole trajectory has one call and no text.
"""

from collections.abc import Sequence
from typing import ClassVar

import jsonschema_rs

from palestra.errors import RowError
from palestra.resources_servers.arguments import Called, ExpectedCall
from palestra.schema import (
    FunctionCall,
    FunctionTool,
    JsonObject,
    OutputMessage,
    Response,
    VerifyRequest,
    VerifyResponse,
    called,
    response_of,
)
from palestra.server import ResourcesServer, RewardRules, tool


class WeatherVerifyRequest(VerifyRequest):
    """The fields that a row needs for its call to be verified."""

    expected_call: ExpectedCall


class TwoRewardsWeatherServer(ResourcesServer):
    """A resources server with a weather tool; the weather is sunny in every city."""

    repeatable: ClassVar[bool | None] = True

    reward_rules: ClassVar[RewardRules] = RewardRules(highest=3.0, wrong=2.0)

    @tool
    async def get_weather(self, city: str) -> dict[str, str]:
        """Get the current weather for a city.

        city: The city to get the weather for.
        """
        return {"city": city, "weather_description": f"The weather in {city} is sunny."}

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response with the expected call."""
        expected = row["expected_call"]
        return response_of(called(expected["name"], expected["arguments"]))

    async def verify(self, body: WeatherVerifyRequest) -> VerifyResponse:
        """Return the sum of the three components as the reward."""
        output = body.response.output
        calls = [Called.of(item) for item in output if isinstance(item, FunctionCall)]
        spoke = any(isinstance(item, OutputMessage) and item.text.strip() for item in output)
        expected = body.expected_call
        components = {
            "correctness": float(
                len(calls) == 1 and calls[0].is_call(expected.name, expected.arguments)
            ),
            "schema_valid": float(bool(calls) and self._all_valid(body, calls)),
            "format": float(len(calls) == 1 and not spoke),
        }
        return self.reply(
            body,
            sum(components.values()),
            reward_components=components,
            **components,
            predicted_calls=[{"name": call.name, "arguments": call.arguments} for call in calls],
        )

    def _all_valid(self, body: WeatherVerifyRequest, calls: Sequence[Called]) -> bool:
        tools = body.responses_create_params.tools
        schemas = {t.name: t.parameters or {} for t in tools if isinstance(t, FunctionTool)}
        try:
            return all(
                call.arguments is not None
                and call.name in schemas
                and jsonschema_rs.is_valid(schemas[call.name], dict(call.arguments))
                for call in calls
            )
        except jsonschema_rs.ValidationError as error:
            raise RowError(
                f"a tool's parameters are not a valid JSON Schema: {error.message}"
            ) from None
