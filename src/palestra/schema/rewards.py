"""How a rollout ended, what is a reward, and what an environment gave instead of one."""

import math
from enum import StrEnum
from typing import Any

_LONGEST_SHOWN = 200


def finite_reward(value: Any) -> float | None:
    """The reward that `value` is; None when it is no number, not finite, or too large for one."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        reward = float(value)
    except OverflowError:
        return None
    return reward if math.isfinite(reward) else None


def no_reward(value: Any) -> str:
    """`nan, which is no reward`: for a message, however large the value is."""
    try:
        shown = repr(value)
    except Exception:  # an author's own class, or a number with too many digits
        shown = f"a {type(value).__name__} that cannot be shown"
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}… ({len(shown)} characters)"
    return f"{shown}, which is no reward"


class Outcome(StrEnum):
    """How one requested rollout ended: exactly once, as one of these.

    Only `SCORED` and `TRUNCATED` carry a reward; every other class is a failure.
    """

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
