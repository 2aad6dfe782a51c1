"""`EquivalenceServer`: a judge decides whether an answer means the same as the expected answer."""

from functools import cached_property
from typing import ClassVar

from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.latex_text import last_box
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import SAME_SYSTEM, SAME_TEMPLATE, Judge, JudgeConfig, Ruling

REFERENCE, CANDIDATE = "expected_answer", "generated_answer"


class EquivalenceConfig(JudgeConfig):
    """The settings of the environment."""

    default_system: ClassVar[str] = SAME_SYSTEM
    default_template: ClassVar[str] = SAME_TEMPLATE
    places: ClassVar[tuple[str, ...]] = ("question", REFERENCE, CANDIDATE)

    reward_if_swap_fails: float = 0.0
    """The reward when the judge calls the answers equal in the first order but not when swapped."""

    quick_check: bool = False
    """Skip the judge and give reward 1.0 when the last box holds exactly the expected answer."""


class EquivalenceVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be judged."""

    expected_answer: str
    question: str | None = None
    """The question shown to the judge. By default, the last message of the prompt."""


class EquivalenceServer(AttemptsServer):
    """A resources server that sends the text of the last message to a judge."""

    config: EquivalenceConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response with the expected answer."""
        return response_of(f"It is this: {row['expected_answer']}")

    async def verify(self, body: EquivalenceVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the judge calls both answers equal, in both orders; else 0.0.

        When the orders disagree, the reward is `reward_if_swap_fails`. Raises JudgeFailure: the
        judge fails or gives no verdict.
        """
        answer = body.response.final_text.strip()
        if not answer:
            return self.reply(body, 0.0, judge_evaluations=[])
        if self.config.quick_check and _same(last_box(answer), body.expected_answer):
            return self.reply(body, 1.0, judge_evaluations=[])
        return await self._judged(body, answer)

    async def _judged(self, body: EquivalenceVerifyRequest, answer: str) -> VerifyResponse:
        hearing = self._judge.hearing(body)
        expected = body.expected_answer.strip()
        question = body.question or body.responses_create_params.last_message
        ruling = await hearing.compare(
            self.config.question(
                {"question": question, REFERENCE: expected, CANDIDATE: answer},
                (REFERENCE, CANDIDATE),
            ),
            self.config.question(
                {"question": question, REFERENCE: answer, CANDIDATE: expected},
                (REFERENCE, CANDIDATE),
            ),
        )
        rewards = {Ruling.EQUAL: 1.0, Ruling.ORDER_MATTERS: self.config.reward_if_swap_fails}
        return self.reply(body, rewards.get(ruling, 0.0), judge_evaluations=hearing.evaluations)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.server_client, self.config)


def _same(box: str | None, expected: str) -> bool:
    return box is not None and box.split() == expected.split() != []
