"""`ReasoningGymServer`: scores answers to the library's tasks with the library's scorers."""

import asyncio
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

from pydantic import Field

from palestra.errors import RowError
from palestra.resources_servers.reasoning_gym.library import UnknownFamily, load_reasoning_gym
from palestra.resources_servers.reasoning_gym.scoring import extract_answer, score_answer
from palestra.schema import Response, VerifyRequest, VerifyResponse, WireModel, response_of
from palestra.serving import Aside, ResourcesServer, ResourcesServerConfig, RewardRules


class TaskMetadata(WireModel):
    """What the family needs to score an answer; its own fields are kept as they came."""

    source_dataset: str = Field(min_length=1)
    """The family's name."""


class ReasoningGymVerifyRequest(VerifyRequest):
    """A row as `generate.py` writes it, with the model's response."""

    question: str
    answer: Any = None
    """The right answer; null where the family judges by the metadata alone."""
    metadata: TaskMetadata


class ReasoningGymServer(ResourcesServer):
    """Scores the text of the last message."""

    config: ResourcesServerConfig

    async def start(self) -> None:
        """Load the library before the first request."""
        await asyncio.to_thread(load_reasoning_gym)

    reward_rules: ClassVar[RewardRules] = RewardRules(
        wrong=0.99, unsure={"mentioned": "some of the library's scorers search the whole text"}
    )

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        """The row's own answer; None for families that judge by the metadata alone."""
        answer = row.get("answer")
        return None if answer is None else response_of(f"<answer>{answer}</answer>")

    async def verify(self, body: ReasoningGymVerifyRequest) -> VerifyResponse:
        """The library's score, 0.0 with `scorer_error` for an answer that cannot be parsed."""
        family = body.metadata.source_dataset
        answer = extract_answer(body.response.final_text)
        entry = {
            "question": body.question,
            "answer": body.answer,
            "metadata": {"source_dataset": family, **(body.metadata.model_extra or {})},
        }
        try:
            score = await self._aside.run(partial(score_answer, family, answer, entry))
        except UnknownFamily as error:
            raise RowError(f"metadata.source_dataset: {error.message}", hint=error.hint) from None
        reported = {"scorer_error": score.error} if score.error else {}
        return self.reply(
            body,
            score.value,
            task_name=family,
            score=score.value,
            extracted_answer=answer,
            **reported,
        )

    @cached_property
    def _aside(self) -> Aside:
        return Aside()
