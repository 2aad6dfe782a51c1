"""One weather call, judged three ways; the reward is the sum of its components.

- `correctness`: exactly one call, of the expected tool with the expected arguments.
- `schema_valid`: every call names a tool of the row, with arguments that its schema allows.
- `format`: one call and not a word beside it, in the whole trajectory.
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
    """What a row must say for its call to be judged."""

    expected_call: ExpectedCall


class WeatherServer(ResourcesServer):
    """It is sunny everywhere."""

    repeatable: ClassVar[bool | None] = True

    reward_rules: ClassVar[RewardRules] = RewardRules(highest=3.0, wrong=2.0)

    @tool
    async def get_weather(self, city: str) -> dict[str, str]:
        """Get the current weather for a city.

        city: The city to get the weather for.
        """
        return {"city": city, "weather_description": f"The weather in {city} is sunny."}

    def gold_response(self, row: JsonObject) -> Response | None:
        """The expected call."""
        wanted = row["expected_call"]
        return response_of(called(wanted["name"], wanted["arguments"]))

    async def verify(self, body: WeatherVerifyRequest) -> VerifyResponse:
        """The sum of the three components."""
        output = body.response.output
        calls = [Called.of(item) for item in output if isinstance(item, FunctionCall)]
        spoke = any(isinstance(item, OutputMessage) and item.text.strip() for item in output)
        wanted = body.expected_call
        components = {
            "correctness": float(
                len(calls) == 1 and calls[0].is_call(wanted.name, wanted.arguments)
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
            raise RowError(f"a tool's parameters are no JSON Schema: {error.message}") from None
