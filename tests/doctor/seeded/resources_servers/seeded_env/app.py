"""An environment that breaks as its row says, in the field `deed`."""

import asyncio
import math
import os
import signal
import time
from typing import Any, Self

from pydantic import model_validator

from palestra.schema import SeedSessionResponse, VerifyRequest, VerifyResponse, WireModel
from palestra.server import (
    Judge,
    JudgeConfig,
    JudgeQuestion,
    ResourcesServer,
    ResourcesServerConfig,
    tool,
)


class SeededConfig(JudgeConfig, ResourcesServerConfig):
    """Settings of the environment."""

    strictness: float = 1.0


class SeededRequest(VerifyRequest):
    """A row of the environment."""

    deed: str
    expected_answer: str = ""

    @model_validator(mode="after")
    def _not_this(self) -> Self:
        if self.deed == "is no row":
            raise ValueError("a deed should be something else")
        return self


class SeededEnv(ResourcesServer):
    """Breaks as asked."""

    config: SeededConfig

    async def seed_session(self, body: WireModel) -> SeedSessionResponse:
        if (body.model_extra or {}).get("deed") == "seed raises":
            raise LookupError("there is no such world")
        return SeedSessionResponse()

    @tool
    async def look_up(self, name: str) -> str:
        """Look something up."""
        if name == "slowly":
            await asyncio.sleep(3600)
        return name

    async def verify(self, body: SeededRequest) -> Any:
        match body.deed:
            case "raises":
                raise ZeroDivisionError("no answers to divide by")
            case "hangs":
                await asyncio.sleep(3600)
            case "blocks":
                time.sleep(1.2)  # noqa: ASYNC251  # this is the fault
            case "exits":
                raise SystemExit(3)
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "nan":
                return self.reply(body, math.nan)
            case "none":
                return VerifyResponse.model_construct(response=body.response, reward=None)
            case "object":
                return self.reply(body, 1.0, log=object())
            case "judge":
                return await self._judged(body)
        return self.reply(body, 1.0)

    async def _judged(self, body: SeededRequest) -> VerifyResponse:
        judge = Judge(self.server_client, self.config)
        hearing = judge.hearing(body)
        asked = JudgeQuestion(
            "You grade.", "Is it right? {answer}", {"answer": body.response.final_text}
        )
        label = await hearing.ask(asked)
        return self.reply(body, float(label == judge.labels.equal))
