r"""`MathWithJudgeServer`: is the answer in the last `\boxed{}` the expected one?

`MathServer` is what mathematical environments share: rules in worker processes, then a judge. The
rules (math-verify and what `spelling` and `units` add) run in worker processes that are killed at a
limit. Where they call an answer different, a judge may be asked, in both orders.

Whose fault an ending is decides what becomes of it:

- the answer's: it took too long or too much memory, or crashed the parser. Reward 0.0, and
  `grading` says which.
- the row's: its own expected answer cannot be graded. `data_error`, no reward; with a judge, the
  judge's to say.
- ours: workers that do not start or are killed from outside, a bug. `verifier_error`, no reward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from palestra.errors import RowError, VerifierError
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
    """Settings of a mathematical environment."""

    default_system: ClassVar[str] = SYSTEM
    default_template: ClassVar[str] = TEMPLATE
    places: ClassVar[tuple[str, ...]] = ("question", FIRST, SECOND)

    should_use_judge: bool = False
    """Ask a judge about answers that the rules call different."""

    grading_limit_s: float = Field(default=20.0, gt=0)
    """Seconds of a core that one answer may take the rules. Waiting for a core does not count."""

    ray_head_node_address: str | None = None
    """The cluster that grades; the fleet passes on its key of that name."""

    @model_validator(mode="after")
    def _names_the_judge_it_uses(self) -> Self:
        if self.should_use_judge and self.judge_model_server is None:
            raise ValueError("should_use_judge needs a judge_model_server")
        return self


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked and wanted, as a row says it."""

    expected: str
    question: str | None = None
    """The problem, for the judge; without it, the last message of the prompt."""
    field: str = "expected_answer"
    """The row's field that says what is expected, for messages."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What an answer is worth, and how that came about."""

    reward: float
    by_rules: float
    """The reward by the rules alone."""
    grading: str
    """The verdict of the rules, or what the answer did to them."""
    extracted: str | None
    """The answer as it was read; None when none was."""
    evaluations: Sequence[JsonObject] | None
    """Exchanges with the judge; None when none was asked."""


class MathServer(AttemptsServer):
    """Grades the text of the last message; a subclass says where the row has its task."""

    has_majority: ClassVar[bool] = True

    config: MathConfig

    async def stop(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    async def judged(self, body: VerifyRequest, task: Task) -> Judged:
        """1.0 when the answer is the expected one, by the rules or else by the judge; else 0.0.

        Raises RowError when the row's own answer cannot be graded and no judge is asked,
        JudgeFailure when a judge is asked and fails, or says neither.
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
        answer = _shown(text)
        if by_rules or not may_ask or not answer:
            return Judged(by_rules, by_rules, grading, extracted, None)
        question = task.question or body.responses_create_params.last_message
        ruling = await self._compared(question, task.expected.strip(), answer, text, hearing)
        reward = float(ruling is Ruling.EQUAL)
        return Judged(reward, by_rules, grading, extracted, hearing.evaluations)

    async def _compared(
        self, question: str, expected: str, answer: str, text: str, hearing: Hearing
    ) -> Ruling:
        asked, order, whole = {"question": question}, (FIRST, SECOND), text.strip()
        return await hearing.compare(
            self.config.question(
                {**asked, FIRST: expected, SECOND: answer}, order, cuts={SECOND: [whole]}
            ),
            self.config.question(
                {**asked, FIRST: answer, SECOND: expected}, order, cuts={FIRST: [whole]}
            ),
        )

    async def _graded(self, task: Task, text: str) -> tuple[str, str | None]:
        """How the rules call the answer, and what they took for it."""
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
                return f"crashed: {outcome.name}", None
            case Raised(kind="RecursionError"):
                await self._check_expected(task)
                return "too_deep", None
            case Raised():
                raise VerifierError(f"grading raised {outcome.kind}: {outcome.message}")

    async def _check_expected(self, task: Task) -> None:
        """What stopped the grading is the answer's fault only when the row's own is harmless."""
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


def _shown(text: str) -> str:
    """What the judge sees of a text: its boxed answer, else its end; empty when it has none."""
    found = find_answers(text)
    return found.readings[-1] if found.readings else found.tail.strip()


def _bad_expected(task: Task) -> RowError:
    return RowError(
        f"{task.field}: {task.expected[:200]!r} is no answer that can be graded",
        hint="give the answer as LaTeX or plain text",
    )


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

    def gold_response(self, row: JsonObject) -> Response | None:
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
