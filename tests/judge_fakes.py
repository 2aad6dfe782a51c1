"""A judge that says what it is told to, and an environment's config that asks it."""

import asyncio
from collections.abc import Callable
from typing import Any

from palestra.schema import Response, ResponseCreateParams
from palestra.server import ModelServer, ModelServerConfig, Session
from palestra.transport import HttpClient, ServerClient, Target

JUDGE = "judge_model"
REFERENCE = {"type": "responses_api_models", "name": JUDGE}


def reply(text: str, *, cut: bool = False) -> Response:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "content": content}
    held: dict[str, Any] = {"id": "r", "created_at": 0, "model": "judge", "output": [message]}
    if cut:
        held["incomplete_details"] = {"reason": "max_output_tokens"}
    return Response.model_validate(held)


class ScriptedJudge(ModelServer):
    """Answers with `says(the question's text)`; keeps what it was asked."""

    config: ModelServerConfig
    says: Callable[[str], str | Response]
    asked: list[ResponseCreateParams]
    most_at_once: list[int]
    gate: asyncio.Barrier | None = None

    async def responses(self, params: ResponseCreateParams, session: Session) -> Response:
        self.asked.append(params)
        self.most_at_once[0] += 1
        self.most_at_once[1] = max(self.most_at_once)
        if self.gate is not None:
            await self.gate.wait()
        self.most_at_once[0] -= 1
        said = self.says(question_text(params))
        return reply(said) if isinstance(said, str) else said


def question_text(params: ResponseCreateParams) -> str:
    assert isinstance(params.input, list)
    return "\n".join(str(item.text) for item in params.input)  # type: ignore[union-attr]


def fleet(
    says: Callable[[str], str | Response], gate: asyncio.Barrier | None = None
) -> tuple[ServerClient, ScriptedJudge]:
    """A client that reaches the judge, and the judge."""
    targets: dict[str, Target] = {}
    client = ServerClient(targets, HttpClient())
    judge = ScriptedJudge(
        config=ModelServerConfig(name=JUDGE),
        server_client=client,
        says=says,
        asked=[],
        most_at_once=[0, 0],
        gate=gate,
    )
    targets[JUDGE] = Target(JUDGE, "responses_api_models", local=judge)
    return client, judge
