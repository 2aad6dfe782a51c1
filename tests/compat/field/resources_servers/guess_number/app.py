from typing import Any, Optional

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from pydantic import Field
from resources_servers.gymnasium import GymnasiumServer, extract_text


class GuessNumberConfig(BaseResourcesServerConfig):
    max_tries: int = 3


class GuessNumberEnv(GymnasiumServer):
    """Guess a number. A wrong guess costs a quarter; the observation says which way to go."""

    config: GuessNumberConfig
    session_state: dict[str, Any] = Field(default_factory=dict)

    async def reset(
        self, metadata: dict, session_id: Optional[str] = None
    ) -> tuple[Optional[str], dict]:
        self.session_state[session_id] = 0
        return "What is your guess?", {"tries": 0}

    async def step(
        self, action: NeMoGymResponse, metadata: dict, session_id: Optional[str] = None
    ) -> tuple[Optional[str], float, bool, bool, dict]:
        self.session_state[session_id] += 1
        tries = self.session_state[session_id]
        info = {"tries": tries}
        try:
            guess = int(extract_text(action).strip())
        except ValueError:
            return None, 0.0, True, False, info
        if guess == metadata["number"]:
            return None, 1.0, True, False, info
        hint = "Higher." if guess < metadata["number"] else "Lower."
        return hint, -0.25, False, tries >= self.config.max_tries, info


if __name__ == "__main__":
    GuessNumberEnv.run_webserver()
