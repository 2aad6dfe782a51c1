"""The words in which every failure is reported: its layer, and how the rollout ended."""

from enum import StrEnum
from typing import Final


class Layer(StrEnum):
    """Where a failure belongs; the doctor reports in these same words."""

    INFRA = "infra"
    MODEL = "model serving"
    CONFIG = "config"
    DATA = "data/schema"
    VERIFIER = "verifier/runtime"
    CACHE = "cache/resume"
    THROUGHPUT = "throughput/resources"


class Outcome(StrEnum):
    """How one requested rollout ended: exactly once, as one of these. Whose code raised decides.

    Only `SCORED` and `TRUNCATED` carry a reward. The other words name failures: in the failures
    file, in `palestra.training.Failed.failure`, and as `error.type` of a failed response.
    """

    SCORED = "scored"
    TRUNCATED = "truncated"
    """Scored, and the model had reached its context or token limit."""
    POLICY_ERROR = "policy_error"
    """The model endpoint answered, and the answer is an error or not an answer."""
    INFRA_ERROR = "infra_error"
    """A process, connection or disk failed; the task was never really tried."""
    DATA_ERROR = "data_error"
    """The row does not fit what a server, a tool schema or the endpoint accepts."""
    AGENT_ERROR = "agent_error"
    """The agent's own code raised, or answered something that is no result."""
    ENVIRONMENT_ERROR = "environment_error"
    """The environment's own code raised while it was seeded or used: a tool, a turn."""
    VERIFIER_ERROR = "verifier_error"
    """The environment's `verify` raised, or returned something that is not a reward."""
    JUDGE_ERROR = "judge_error"
    """The judge model failed or gave no verdict that can be read."""
    TIMEOUT = "timeout"
    """A deadline passed; the message says what was being awaited."""
    CANCELLED = "cancelled"
    """The run was stopped, or the trainer gave it up, before this rollout ended."""
    STALE = "stale"
    """Made by weights that are older than the trainer accepts. A collection never has it."""

    @property
    def has_reward(self) -> bool:
        """Whether a rollout that ended so has a reward."""
        return self in {Outcome.SCORED, Outcome.TRUNCATED}


FAILURES: Final = tuple(outcome for outcome in Outcome if not outcome.has_reward)
"""Every ending without a reward."""
