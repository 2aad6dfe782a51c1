"""One tool and a verifier that always gives reward 1.0: the least that an environment needs."""

from typing import ClassVar

from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, RewardRules, tool


class WeatherServer(ResourcesServer):
    """A resources server with a weather tool that returns the same weather for every city."""

    repeatable: ClassVar[bool | None] = True

    reward_rules: ClassVar[RewardRules] = RewardRules(
        same_for_all="it teaches the protocol, and there is nothing to be right about"
    )

    @tool
    async def get_weather(self, city: str) -> dict[str, str]:
        """Get the current weather of a city.

        city: the city's name
        """
        return {"city": city, "weather_description": f"The weather in {city} is cold."}

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        """Reward every rollout: this environment teaches the protocol, not a skill."""
        return self.reply(body, 1.0)
