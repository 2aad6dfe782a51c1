"""`EnvironmentAgent`: `SimpleAgent`, which also takes turns where the environment has a `reply`.

The environment's answer to `/seed_session` says whether it takes turns, and how often the model may
be called. A turn with calls goes on with their outputs. A turn without calls goes to `/step`, whose
answer is the next user message. The loop ends when the environment says nothing more, when a turn
is incomplete, or at the limit. Where there is a limit, the row says whether it ended the loop.
"""

from itertools import takewhile
from typing import Final

from palestra.responses_api_agents.simple_agent.app import SimpleAgent
from palestra.schema import (
    TURN_LIMIT_REACHED,
    FunctionCall,
    FunctionCallOutput,
    JsonObject,
    Response,
    RunRequest,
    VerifyResponse,
    encode_json,
)
from palestra.server import Seeded, Step
from palestra.transport import Peer

TURNS: Final = frozenset({"reset", "step"})
"""Paths of an environment that takes turns. They are no tools, whatever the model calls."""


class EnvironmentAgent(SimpleAgent):
    """The agent of environments in one file; see the module's docstring."""

    async def run(self, body: RunRequest) -> VerifyResponse:
        """Run one rollout: seed the session, run the loop, verify."""
        environment = self.server_client.peer(self.environment_name())
        model = self.server_client.peer(self.model_name())
        row = {**body.__dict__, **(body.model_extra or {})}
        try:
            seeded = await environment.call("/seed_session", row, Seeded)
            response, at_limit = await self._played(body, environment, model, seeded)
        except BaseException:
            await self.close_session(environment)
            raise
        limit = {TURN_LIMIT_REACHED: at_limit} if self._limit(seeded) is not None else {}
        return await self.verified(environment, {**row, "response": response, **limit})

    def _limit(self, seeded: Seeded) -> int | None:
        limits = [n for n in (self.config.max_steps, seeded.max_turns) if n is not None]
        return min(limits, default=None)

    async def _played(
        self, body: RunRequest, environment: Peer, model: Peer, seeded: Seeded
    ) -> tuple[Response, bool]:
        """Return the trajectory, and whether the limit ended it: the user or a tool had more to say."""
        observation: str | None = None

        async def reply(turn: Response) -> str | None:
            nonlocal observation
            step = await environment.call("/step", {"response": turn}, Step)
            observation = None if step.terminated or step.truncated else step.observation
            return observation

        async def call_tool(name: str, arguments: JsonObject) -> str:
            if seeded.takes_turns and name in TURNS:
                return encode_json({"error": f"there is no tool named {name}"}).decode()
            return await environment.call_tool(name, arguments)

        response = await self.play(
            body.responses_create_params,
            model,
            call_tool,
            reply=reply if seeded.takes_turns else None,
            max_turns=seeded.max_turns,
        )
        # A model may write a message after its calls.
        last_turn = takewhile(
            lambda item: not isinstance(item, FunctionCallOutput), reversed(response.output)
        )
        has_open_call = any(isinstance(item, FunctionCall) for item in last_turn)
        is_unfinished = has_open_call or observation is not None
        return response, is_unfinished and response.incomplete_details is None
