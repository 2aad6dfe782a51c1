"""An agent that does what its row says: answer, wait, or take memory until it is killed."""

import asyncio
import os
from pathlib import Path

from palestra.schema import Response, ResponseCreateParams, RunRequest, VerifyResponse, response_of
from palestra.server import Agent
from palestra.transport import Peer

HANG_S = 3600.0
MIB = 1 << 20


class Row(RunRequest):
    """What to do, and where to say which process does it."""

    does: str
    mark: Path
    group: Path | None = None


class WaitingAgent(Agent):
    """Answers with a reward of 0.5."""

    async def run(self, body: Row) -> VerifyResponse:
        if body.does != "answer":
            partial = body.mark.with_suffix(".partial")
            partial.write_text(str(os.getpid()))
            partial.rename(body.mark)
        if body.does == "take memory" and body.group is not None:
            (body.group / "cgroup.procs").write_text(str(os.getpid()))
            taken = []
            while True:
                taken.append(bytearray(16 * MIB))
        if body.does == "wait":
            await asyncio.sleep(HANG_S)
        return VerifyResponse(
            responses_create_params=body.responses_create_params,
            response=response_of("done"),
            reward=0.5,
        )

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        raise NotImplementedError

    def environment_name(self) -> str:
        return ""

    def model_name(self) -> str:
        return ""
