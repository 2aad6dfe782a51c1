"""`EquivalenceServer`: a judge decides whether an answer means the same as the expected answer."""

from functools import cached_property
from typing import ClassVar

from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.latex_text import last_box
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import Judge, JudgeConfig, Ruling

REFERENCE, CANDIDATE = "expected_answer", "generated_answer"

SYSTEM = """\
You compare two answers to one question and decide whether they say the same.

- One of them was written by an examiner and is short; the other may be a whole text that leads \
up to its answer. Compare what each finally answers, not how it gets there or how long it is.
- Other words, another notation, another unit that was converted correctly, or an order that \
does not matter make no difference.
- A missing part, an additional claim that contradicts, another quantity or another unit does.
- A text that gives several alternatives, or no answer, says the same as no single answer.

Give your reason in one or two sentences. Then end with one line that holds nothing but your \
verdict:
{equal_label} when both say the same
{not_equal_label} when they do not"""

TEMPLATE = """\
The question:

{question}

Answer A:

{expected_answer}

Answer B:

{generated_answer}

Do answer A and answer B say the same? Your reason, then {equal_label} or {not_equal_label} on a \
line of its own."""


class EquivalenceConfig(JudgeConfig):
    """The settings of the environment."""

    default_system: ClassVar[str] = SYSTEM
    default_template: ClassVar[str] = TEMPLATE
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
