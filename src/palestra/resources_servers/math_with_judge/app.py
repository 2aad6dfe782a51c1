r"""`MathWithJudgeServer`: is the answer in the last `\boxed{}` the expected one?

The rules (math-verify and what `spelling` and `units` add) run in worker processes that are
killed at a limit. Whose fault an ending is decides what becomes of it:

- the answer's: it took too long or too much memory, or crashed the parser. Reward 0.0, and
  `grading` says which.
- the row's: its own `expected_answer` cannot be graded. `data_error`, no reward.
- ours: workers that do not start or are killed from outside, a bug. `verifier_error`, no reward.
"""

from functools import cached_property
from typing import Any, Final

from pydantic import Field

from palestra.errors import ConfigError, RowError, VerifierError
from palestra.profiling import compute_pass_majority_metrics, highest_k_metrics
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
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.serving import ResourcesServer, ResourcesServerConfig, ServerReference

_GRADING: Final = "palestra.resources_servers.math_with_judge.grading"

CORRECT, BAD_EXPECTED = "correct", "bad_expected"
"""Verdicts of `grading`, which only workers import: it loads sympy."""


class MathWithJudgeConfig(ResourcesServerConfig):
    """Settings of the environment."""

    should_use_judge: bool = False
    """Ask a judge about answers that the rules call different."""

    judge_model_server: ServerReference | None = None
    """The model that judges; required when one is used."""

    judge_responses_create_params: dict[str, Any] = Field(default_factory=lambda: {"input": []})
    """How the judge is asked: temperature, token limit, …; its `input` is replaced."""

    grading_limit_s: float = Field(default=20.0, gt=0)
    """Seconds of a core that one answer may take the rules. Waiting for a core does not count."""

    ray_head_node_address: str | None = None
    """The cluster that grades; the fleet passes on its key of that name."""


class MathWithJudgeVerifyRequest(VerifyRequest):
    """What a row must say for its answer to be graded."""

    question: str | None = None
    """The problem, for the judge."""

    expected_answer: str = Field(min_length=1)
    r"""The right answer, as LaTeX or plain text, with or without `\boxed{}` or dollar signs."""


class MathWithJudgeServer(ResourcesServer):
    """Grades the text of the last message."""

    config: MathWithJudgeConfig

    async def start(self) -> None:
        """Refuse settings that cannot work."""
        if self.config.should_use_judge:
            raise ConfigError(f"{self.name}: should_use_judge: there is no judge stage yet")

    async def stop(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    async def verify(self, body: MathWithJudgeVerifyRequest) -> VerifyResponse:
        """1.0 when the answer is the expected one, by the rules; else 0.0."""
        grading, extracted = await self._graded(body)
        reward = float(grading == CORRECT)
        return self.reply(
            body,
            reward,
            extracted_answer=extracted,
            library_reward=reward,
            judge_evaluations=None,
            grading=grading,
        )

    async def _graded(self, body: MathWithJudgeVerifyRequest) -> tuple[str, str | None]:
        """How the rules call the answer, and what they took for it."""
        outcome = await self._call("grade", body.expected_answer, body.response.final_text)
        match outcome:
            case Returned([str(grading), extracted]) if grading != BAD_EXPECTED:
                return grading, extracted
            case Returned():
                raise _bad_expected(body)
            case TimedOut():
                await self._check_expected(body)
                return "timed_out", None
            case OutOfMemory():
                await self._check_expected(body)
                return "out_of_memory", None
            case Crashed():
                await self._check_expected(body)
                return f"crashed: {outcome.name}", None
            case Raised(kind="RecursionError"):
                await self._check_expected(body)
                return "too_deep", None
            case Raised():
                raise VerifierError(f"grading raised {outcome.kind}: {outcome.message}")

    async def _check_expected(self, body: MathWithJudgeVerifyRequest) -> None:
        """What stopped the grading is the answer's fault only when the row's own is harmless."""
        if await self._call("check_expected", body.expected_answer) != Returned(True):
            raise _bad_expected(body)

    async def _call(self, function: str, *args: str) -> Outcome:
        name = f"{_GRADING}:{function}"
        return await self._workers.call(name, *args, limit_s=self.config.grading_limit_s)

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(
            ray_address=self.config.ray_head_node_address, preload=[f"{_GRADING}:warm_up"]
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k, its averages, and majority@k over the extracted answers; in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        """Average, best and majority of as many attempts as there are."""
        return {
            name: value
            for pattern in ("pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}")
            for name, value in highest_k_metrics(agent_metrics, pattern).items()
        }


def _bad_expected(body: MathWithJudgeVerifyRequest) -> RowError:
    return RowError(
        f"expected_answer: {body.expected_answer[:200]!r} is no answer that can be graded",
        hint="give the answer as LaTeX or plain text",
    )
