"""The agent's part in the plan: a simple agent that breaks as it says."""

import asyncio
import math

from fault_plan import fate_of, mark_of

from palestra.responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from palestra.schema import Response, ResponseCreateParams, RunRequest, VerifyResponse
from palestra.server import ServerReference
from palestra.transport import Peer, current_call

HANG_S = 3600.0


class FaultAgentConfig(SimpleAgentConfig):
    """Settings of the agent."""

    refused_model: ServerReference
    """A model server whose endpoint is gone."""


class FaultAgent(SimpleAgent):
    """Breaks as planned."""

    config: FaultAgentConfig

    async def run(self, body: RunRequest) -> VerifyResponse:
        ended = await super().run(body)
        if _fate() == "agent answers nan":
            return ended.model_copy(update={"reward": math.nan})
        return ended

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        match _fate():
            case "agent raises":
                raise RuntimeError(_mark())
            case "agent exits":
                raise SystemExit(_mark())
            case "agent cancels itself":
                raise asyncio.CancelledError(_mark())
            case "agent hangs":
                await asyncio.sleep(HANG_S)
            case "upstream refuses":
                model = self.server_client.peer(self.config.refused_model.name)
        return await super().respond(params, environment=environment, model=model)


def _key() -> tuple[int, int]:
    row = current_call().row
    assert row is not None
    return int(row.task or 0), int(row.rollout or 0)


def _fate() -> str:
    return fate_of(*_key()).name


def _mark() -> str:
    return mark_of(*_key())
