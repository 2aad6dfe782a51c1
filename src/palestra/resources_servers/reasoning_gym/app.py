"""`ReasoningGymServer`: scores answers with the scorers of the reasoning_gym library."""

import json
from functools import cached_property
from typing import Any, ClassVar, Final

from pydantic import Field

from palestra.errors import RowError
from palestra.resources_servers.reasoning_gym.library import check_installed
from palestra.resources_servers.reasoning_gym.scoring import UNKNOWN_FAMILY, extract_answer
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.sandbox import Workers, open_workers
from palestra.schema import (
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    response_of,
)
from palestra.server import ResourcesServer, ResourcesServerConfig, RewardRules

LIMIT_S: Final = 10.0
"""The seconds for scoring one answer; waiting for a core does not count."""

STARTS_S: Final = 120.0

_LIBRARY: Final = "palestra.resources_servers.reasoning_gym"


class TaskMetadata(WireModel):
    """The fields that a family needs to score an answer. Extra fields are kept unchanged."""

    source_dataset: str = Field(min_length=1)
    """The name of the task family."""


class ReasoningGymVerifyRequest(VerifyRequest):
    """A row as `generate.py` writes it, with the model's response."""

    question: str
    answer: Any = None
    """The right answer; null when the family scores by the metadata alone."""
    metadata: TaskMetadata


class ReasoningGymServer(ResourcesServer):
    """A resources server that scores the text of the last message."""

    config: ResourcesServerConfig

    async def start(self) -> None:
        """Load the library in the workers before the first request."""
        check_installed()
        ready = Call(f"{_LIBRARY}.library:warm_up", ())
        await value_of(self._workers, ready, row_call=ready, field="", limit_s=STARTS_S)

    reward_rules: ClassVar[RewardRules] = RewardRules(
        wrong=0.99, unsure={"mentioned": "some of the library's scorers search the whole text"}
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the row's own answer; None for families that score by the metadata alone."""
        answer = row.get("answer")
        return None if answer is None else response_of(f"<answer>{answer}</answer>")

    async def verify(self, body: ReasoningGymVerifyRequest) -> VerifyResponse:
        """Return the library's score; 0.0 with `scorer_error` for an answer that cannot be parsed."""
        family = body.metadata.source_dataset
        answer = extract_answer(body.response.final_text)
        entry = {
            "question": body.question,
            "answer": body.answer,
            "metadata": {"source_dataset": family, **(body.metadata.model_extra or {})},
        }
        try:
            verdict, value, error = await self._scored(family, answer, json.dumps(entry))
        except Stopped as stopped:
            verdict, value, error = "", 0.0, f"the scorer was stopped: {stopped.why}"
        if verdict == UNKNOWN_FAMILY:
            message, _, hint = error.partition("\n")
            raise RowError(f"metadata.source_dataset: {message}", hint=hint)
        reported = {"scorer_error": error} if error else {}
        return self.reply(
            body,
            value,
            task_name=family,
            score=value,
            extracted_answer=answer,
            **reported,
        )

    async def _scored(self, family: str, answer: str, entry: str) -> tuple[str, float, str]:
        answer_call, expected_call = (
            Call(f"{_LIBRARY}.scoring:score_in_worker", (family, text, entry))
            for text in (answer, None)
        )
        verdict, value, error = await value_of(
            self._workers, answer_call, row_call=expected_call, field="answer", limit_s=LIMIT_S
        )
        return verdict, float(value), error

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=[f"{_LIBRARY}.library:warm_up", f"{_LIBRARY}.scoring"])
