"""What to write as `reward_rules`, in case rewards that a check found wrong are meant."""

import math
from collections.abc import Sequence

from palestra.conformance.examination import CLOSE, Examination


def less_for_right(work: Examination) -> str:
    """Return the rules under which the right answers are right, where all get the same other reward;
    else an empty text.
    """
    rewards = _of_right_answers(work)
    usual = rewards[0] if rewards else 0.0
    is_same = all(abs(reward - usual) <= CLOSE for reward in rewards)
    if not is_same or work.is_gold(usual) or usual <= work.rules.wrong + CLOSE:
        return ""
    return f"if that is the best reward: {_rules(highest=usual)}"


def partial_credit(work: Examination, rewards: Sequence[float | None]) -> str:
    """Return the rules under which wrong answers may get these `rewards`; empty where one gets no
    reward, or as much as a right answer.
    """
    right = max(_of_right_answers(work), default=work.rules.highest)
    parts = [reward for reward in rewards if reward is not None and reward < right - CLOSE]
    if not parts or len(parts) < len(rewards) or not math.isfinite(right):
        return ""
    limits = {"highest": right} if right > work.rules.highest + CLOSE else {}
    return f"if they may earn a part: {_rules(**limits, wrong=max(parts))}"


def rules_for_all(work: Examination) -> str:
    """Return the rules that allow every reward so far."""
    verdicts = [verdict.reward for _, verdict in work.all_verdicts]
    rewards = [reward for reward in verdicts if reward is not None and math.isfinite(reward)]
    lowest, highest = min(rewards, default=0.0), max(rewards, default=0.0)
    limits = {"lowest": lowest} if lowest < work.rules.lowest - CLOSE else {}
    if highest > work.rules.highest + CLOSE:
        limits["highest"] = highest
    return f"if they are meant: {_rules(**limits)}" if limits else ""


def _of_right_answers(work: Examination) -> list[float]:
    """Return the rewards of the answers that are right, without those whose reward is declared."""
    return [
        verdict.reward
        for probe, verdict in work.seen
        if probe.kind == "gold" and probe.expected is None and verdict.reward is not None
    ]


def _rules(**limits: float) -> str:
    numbers = ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
    return f"reward_rules = RewardRules({numbers})"
