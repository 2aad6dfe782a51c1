"""What is a reward, and what an environment gave instead of one."""

import math
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
