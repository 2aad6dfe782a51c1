"""How one requested rollout ended. Each requested rollout ends exactly once, as one of these."""

from enum import StrEnum


class Outcome(StrEnum):
    """Only `SCORED` and `TRUNCATED` carry a reward; every other class is a failure."""

    SCORED = "scored"
    TRUNCATED = "truncated"
    """Scored, and the model had reached its context or token limit."""
    POLICY_ERROR = "policy_error"
    INFRA_ERROR = "infra_error"
    DATA_ERROR = "data_error"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_ERROR = "environment_error"
    VERIFIER_ERROR = "verifier_error"
    JUDGE_ERROR = "judge_error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"

    @property
    def has_reward(self) -> bool:
        """Whether a rollout that ended so has a reward."""
        return self in {Outcome.SCORED, Outcome.TRUNCATED}
