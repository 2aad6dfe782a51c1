r"""`MathWithJudgeServer`: is the answer in the last `\boxed{}` the expected one?"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from palestra.resources_servers.math_with_judge.mathematics import MathConfig, MathServer, Task
from palestra.schema import Response, VerifyRequest, VerifyResponse, response_of


class MathWithJudgeConfig(MathConfig):
    """Settings of the environment."""


class MathWithJudgeVerifyRequest(VerifyRequest):
    """What a row must say for its answer to be graded."""

    question: str | None = None
    """The problem, for the judge; without it, the last message of the prompt."""

    expected_answer: str = Field(min_length=1)
    r"""The right answer, as LaTeX or plain text, with or without `\boxed{}` or dollar signs."""


class MathWithJudgeServer(MathServer):
    """Grades by the rules, then by the judge."""

    config: MathWithJudgeConfig

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        """The expected answer in a box."""
        return response_of(f"\\boxed{{{row['expected_answer']}}}")

    async def verify(self, body: MathWithJudgeVerifyRequest) -> VerifyResponse:
        """1.0 when the answer is the expected one, by the rules or else by the judge; else 0.0."""
        judged = await self.judged(body, Task(body.expected_answer, body.question))
        return self.reply(
            body,
            judged.reward,
            extracted_answer=judged.extracted,
            library_reward=judged.by_rules,
            judge_evaluations=judged.evaluations,
            grading=judged.grading,
        )
