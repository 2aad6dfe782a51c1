"""The environment's part in the plan: tools and a verifier that break as it says."""

import asyncio
import math
from typing import Any

from fastapi import HTTPException
from fastapi.responses import PlainTextResponse
from fault_plan import answer_of, fate_of, mark_of, reward_of

from palestra.schema import SeedSessionResponse, VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServer, ResourcesServerConfig, tool
from palestra.transport import current_call

HANG_S = 3600.0
MUCH = 2_000_000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for this")


def here() -> tuple[int, int, int]:
    """Task, rollout and attempt of the call being served."""
    row = current_call().row
    assert row is not None
    return int(row.task or 0), int(row.rollout or 0), row.attempt


class FaultEnvironmentConfig(ResourcesServerConfig):
    """Settings of the environment."""

    strictness: float = 1.0
    """Means nothing; a run is not continued with another one."""


class FaultEnvironment(ResourcesServer):
    """Breaks as planned."""

    config: FaultEnvironmentConfig

    async def seed_session(self, body: WireModel) -> SeedSessionResponse:
        task, rollout, _ = here()
        if fate_of(task, rollout).name == "seed raises":
            raise LookupError(mark_of(task, rollout))
        return SeedSessionResponse()

    @tool
    async def look_up(self, name: str) -> Any:
        """Look something up."""
        task, rollout, attempt = here()
        match fate_of(task, rollout).name:
            case "tool raises":
                raise LookupError(mark_of(task, rollout))
            case "tool hangs":
                await asyncio.sleep(HANG_S)
            case "tool hangs once" if attempt == 1:
                await asyncio.sleep(HANG_S)
            case "tool answers nan":
                return {"value": math.nan}
            case "tool answers a surrogate":
                return "\ud800"
            case "tool answers much":
                return "x" * MUCH
        return name

    def setup_webserver(self) -> Any:
        app = super().setup_webserver()

        @app.post("/flaky")
        async def flaky() -> PlainTextResponse:
            task, rollout, _ = here()
            return PlainTextResponse(mark_of(task, rollout), 500)

        return app

    async def verify(self, body: VerifyRequest) -> Any:
        task, rollout, _ = here()
        fate = fate_of(task, rollout).name
        if fate.startswith("verify"):
            return await self._broken(fate, body, mark_of(task, rollout), reward_of(task, rollout))
        # A wrong answer would be a reward that nobody planned.
        truncated = body.response.incomplete_details is not None
        right = truncated or body.response.final_text == answer_of(task, rollout)
        return self.reply(body, reward_of(task, rollout) if right else -1.0)

    async def _broken(  # noqa: C901, PLR0911, PLR0912  # one table
        self, fate: str, body: VerifyRequest, mark: str, reward: float
    ) -> Any:
        given: Any = VerifyResponse.model_construct
        match fate.removeprefix("verify "):
            case "raises":
                raise ZeroDivisionError(mark)
            case "answers 500":
                raise HTTPException(500, mark)
            case "hangs":
                await asyncio.sleep(HANG_S)
            case "exits":
                raise SystemExit(mark)
            case "raises the unprintable":
                raise Unprintable
            case "raises a surrogate":
                raise ValueError(mark + " \ud800")
            case "raises a group":
                raise ExceptionGroup(mark, [ValueError("inner")])
            case "cancels itself":
                raise asyncio.CancelledError(mark)
            case "nan":
                return self.reply(body, math.nan)
            case "inf":
                return self.reply(body, -math.inf)
            case "none":
                return given(response=body.response, reward=None)
            case "text":
                return given(response=body.response, reward="1.0")
            case "without reward":
                return given(response=body.response)
            case "nothing":
                return None
            case "enormous":
                return given(response=body.response, reward=10**5000)
            case "reports much":
                return self.reply(body, reward, log="x" * MUCH)
            case "reports an object":
                return self.reply(body, reward, log=object())
        raise AssertionError(fate)
