r"""`MathWithJudgeServer`: is the answer in the last `\boxed{}` equal to the expected one?

`MathServer` is the base of mathematical environments. First it applies rules: math-verify and the
additions in modules like `spelling` and `units`. They run in worker processes, which are killed at
a limit. When the rules find an answer different, it can send the answer to a judge, in both orders.

What happens when grading fails depends on the cause:

- the answer: it took too long or too much memory, or crashed the parser. The reward is 0.0, and
  `grading` names the reason.
- the row: its own expected answer cannot be graded. The result is a `data_error` without a reward;
  with a judge, the judge decides.
- the verifier: workers do not start or are killed from outside, or a bug. The result is a
  `verifier_error` without a reward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from palestra.errors import RowError, VerifierError, require_extra
from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.math_with_judge.boxes import find_answers
from palestra.resources_servers.stopped import Call, outcome_of
from palestra.sandbox import (
    Crashed,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    Workers,
    open_workers,
)
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import Hearing, Judge, JudgeConfig, Ruling

_GRADING: Final = "palestra.resources_servers.math_with_judge.grading"

CORRECT, BAD_EXPECTED = "correct", "bad_expected"
"""Verdicts of `grading`, which only workers import: it loads sympy."""

FIRST, SECOND = "first_answer", "second_answer"

SYSTEM = """\
You decide whether two answers to one mathematical problem are equivalent.

- Only mathematical equality counts: another form, notation or simplification, an exact value for \
the same exact value, another name of the same set or function are equivalent.
- A rounded value is not an exact one, unless the problem asks for it. Another quantity, a missing \
case, an additional case or another unit is different.
- Do not solve the problem, and do not guess what was meant. An answer that gives several values \
where one is asked for is different.

Give your reason in one or two sentences. Then end with one line that holds nothing but your \
verdict:
{equal_label} when they are equivalent
{not_equal_label} when they are different"""

TEMPLATE = """\
The problem:

{question}

Answer A:

{first_answer}

Answer B:

{second_answer}

Are answer A and answer B equivalent? Your reason, then {equal_label} or {not_equal_label} on a \
line of its own."""


class MathConfig(JudgeConfig):
    """The settings of a mathematical environment."""

    default_system: ClassVar[str] = SYSTEM
    default_template: ClassVar[str] = TEMPLATE
    places: ClassVar[tuple[str, ...]] = ("question", FIRST, SECOND)

    should_use_judge: bool = False
    """Whether to send answers that the rules find different to a judge."""

    grading_limit_s: float = Field(default=20.0, gt=0)
    """The seconds that the rules may take for one answer; waiting for a core does not count."""

    ray_head_node_address: str | None = None
    """The Ray cluster that grades. The fleet passes on its own setting of that name."""

    @model_validator(mode="after")
    def _names_the_judge_it_uses(self) -> Self:
        if self.should_use_judge and self.judge_model_server is None:
            raise ValueError("should_use_judge needs a judge_model_server")
        return self


@dataclass(frozen=True, slots=True)
class Task:
    """The expected answer and the problem of a row."""

    expected: str
    question: str | None = None
    """The problem, shown to the judge. By default, the last message of the prompt."""
    field: str = "expected_answer"
    """The name of the row's field with the expected answer, for error messages."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The reward of an answer, and how it was found."""

    reward: float
    by_rules: float
    """The reward from the rules alone."""
    grading: str
    """The verdict of the rules, or how the answer made them fail."""
    extracted: str | None
    """The answer that the rules extracted; None when they found none."""
    evaluations: Sequence[JsonObject] | None
    """The exchanges with the judge; None when no judge was used."""


class MathServer(AttemptsServer):
    """A resources server that grades the last message. A subclass reads the task from its row."""

    has_majority: ClassVar[bool] = True
    extra: ClassVar[str] = "math"
    """The extra of Palestra that brings the libraries of this environment."""

    config: MathConfig

    async def start(self) -> None:
        """Raise ConfigError when the library that the rules use is not installed."""
        require_extra("math_verify", extra=self.extra, what=self.name)

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    async def judged(self, body: VerifyRequest, task: Task) -> Judged:
        """Grade the answer: 1.0 when the rules or the judge find it equal to the expected one; else
        0.0.

        Raises RowError: the row's own answer cannot be graded, and no judge may be used. Raises
        JudgeFailure: the judge fails, or gives no verdict.
        """
        hearing = self._judge.hearing(body)
        # A stored row whose judge has spoken is verified again by what it said.
        may_ask = self.config.should_use_judge or hearing.has_recorded
        text = body.response.final_text
        try:
            grading, extracted = await self._graded(task, text)
        except RowError:
            if not may_ask:
                raise
            grading, extracted = BAD_EXPECTED, None
        by_rules = float(grading == CORRECT)
        answer = _shown_answer(text)
        if by_rules or not may_ask or not answer:
            return Judged(by_rules, by_rules, grading, extracted, None)
        question = task.question or body.responses_create_params.last_message
        ruling = await self._compared(question, task.expected.strip(), answer, text, hearing)
        reward = float(ruling is Ruling.EQUAL)
        return Judged(reward, by_rules, grading, extracted, hearing.evaluations)

    async def _compared(
        self, question: str, expected: str, answer: str, text: str, hearing: Hearing
    ) -> Ruling:
        fields, order, answer_text = {"question": question}, (FIRST, SECOND), text.strip()
        return await hearing.compare(
            self.config.question(
                {**fields, FIRST: expected, SECOND: answer}, order, cuts={SECOND: [answer_text]}
            ),
            self.config.question(
                {**fields, FIRST: answer, SECOND: expected}, order, cuts={FIRST: [answer_text]}
            ),
        )

    async def _graded(self, task: Task, text: str) -> tuple[str, str | None]:
        """Grade by the rules. Return the verdict and the answer that the rules found."""
        outcome = await self._call("grade", task.expected, text)
        match outcome:
            case Returned([str(grading), extracted]) if grading != BAD_EXPECTED:
                return grading, extracted
            case Returned():
                raise _bad_expected(task)
            case TimedOut():
                await self._check_expected(task)
                return "timed_out", None
            case OutOfMemory():
                await self._check_expected(task)
                return "out_of_memory", None
            case Crashed():
                await self._check_expected(task)
                return f"crashed: signal {outcome.name}", None
            case Raised(kind="RecursionError"):
                await self._check_expected(task)
                return "too_deep", None
            case Raised():
                raise VerifierError(f"grading raised {outcome.kind}: {outcome.message}")

    async def _check_expected(self, task: Task) -> None:
        """Raise RowError when the row's own expected answer cannot be graded; then the model's
        answer is not at fault.
        """
        if await self._call("check_expected", task.expected) != Returned(True):
            raise _bad_expected(task)

    async def _call(self, function: str, *args: str) -> Outcome:
        call = Call(f"{_GRADING}:{function}", args)
        return await outcome_of(self._workers, call, self.config.grading_limit_s)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.server_client, self.config)

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(
            ray_address=self.config.ray_head_node_address, preload=[f"{_GRADING}:warm_up"]
        )


def _shown_answer(text: str) -> str:
    """Return what the judge sees of a text: its boxed answer, else its end; empty when it has
    neither.
    """
    answers = find_answers(text)
    return answers.readings[-1] if answers.readings else answers.tail.strip()


def _bad_expected(task: Task) -> RowError:
    return RowError(
        f"{task.field}: {task.expected[:200]!r} is not an answer that can be graded",
        hint="give the answer as LaTeX or plain text",
    )


class MathWithJudgeConfig(MathConfig):
    """The settings of the environment."""


class MathWithJudgeVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be graded."""

    question: str | None = None
    """The problem, shown to the judge. By default, the last message of the prompt."""

    expected_answer: str = Field(min_length=1)
    r"""The right answer, as LaTeX or plain text, with or without `\boxed{}` or dollar signs."""


class MathWithJudgeServer(MathServer):
    """A resources server that grades by the rules, then by the judge."""

    config: MathWithJudgeConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the expected answer in a box."""
        return response_of(f"\\boxed{{{row['expected_answer']}}}")

    async def verify(self, body: MathWithJudgeVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the rules or the judge find the answer equal to the expected one;
        else 0.0.
        """
        judged = await self.judged(body, Task(body.expected_answer, body.question))
        return self.reply(
            body,
            judged.reward,
            extracted_answer=judged.extracted,
            library_reward=judged.by_rules,
            judge_evaluations=judged.evaluations,
            grading=judged.grading,
        )
