"""The two views of a metric: over the scored rollouts, and over everything that was requested.

A rollout that was not scored has no reward, and none is made up for it. So over all requested
rollouts a metric is a range: from what it would be if every missing rollout had the worst reward
to what it would be if every one had the best (Manski 1989, "Anatomy of the Selection Problem",
the bounds without assumptions). The range is a point, and equal to the other view, when nothing
is missing. It says nothing about sampling error; intervals do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palestra.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    expected_max_of_sorted,
    rows_by_size,
    sum_by_group,
)

SOLVED_REWARD = 1.0
"""From this reward on a rollout counts as solved; `pass_rate` is the share of such rollouts."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a number can be, whatever the missing rollouts would have scored."""

    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether nothing is missing that matters to it."""
        return self.low == self.high

    def as_json(self) -> list[float]:
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Expected best (or worst) reward among k rollouts of a task, over tasks that have k."""

    k: int
    value: float
    tasks: int


@dataclass(frozen=True, slots=True)
class RangeAtK:
    """As `PassAtK`, over the tasks of which k rollouts were requested."""

    k: int
    value: Range
    tasks: int


@dataclass(frozen=True, slots=True)
class OverRequested:
    """The metrics of `Scores`, over all requested rollouts and tasks."""

    tasks: int
    mean_reward: Range
    pass_at: Sequence[RangeAtK]
    pass_hat: Sequence[RangeAtK]
    never_solved: Range
    sometimes_solved: Range
    always_solved: Range


def reward_range(rewards: FloatArray) -> tuple[float, float]:
    """The worst and the best reward: 0 and 1, or what was observed where that goes beyond."""
    return min(0.0, float(rewards.min())), max(1.0, float(rewards.max()))


def solved_by_group(rewards: FloatArray, starts: IntArray) -> IntArray:
    """How many rewards of each group are those of a solved task."""
    solved = (rewards >= SOLVED_REWARD).astype(np.float64)
    return sum_by_group(solved, starts).astype(np.int64)


def pass_powers(rewards: FloatArray, starts: IntArray) -> tuple[list[PassAtK], list[PassAtK]]:
    """The expected maximum and minimum of k rewards, k = 1, 2, 4, … up to the largest group.

    For 0/1 rewards: the chance that one of k is solved (pass@k), and that all are (pass^k).
    """
    sizes = np.diff(starts)
    matrices = [np.sort(rows, axis=1) for _, rows in rows_by_size(rewards, starts)]
    powers = [2**power for power in range(int(sizes.max()).bit_length())]
    best = [_at_k(matrices, k) for k in powers]
    # the worst of k is the best of k with all signs turned, and then rows ascend backwards
    turned = [0.0 - rows[:, ::-1] for rows in matrices]
    worst = [_at_k(turned, k) for k in powers]
    return best, [PassAtK(at.k, 0.0 - at.value, at.tasks) for at in worst]


def _at_k(matrices: Sequence[FloatArray], k: int) -> PassAtK:
    held = [expected_max_of_sorted(rows, k) for rows in matrices if rows.shape[1] >= k]
    values = np.concatenate(held)
    return PassAtK(k, float(values.mean()), len(values))


def over_requested(
    rewards: FloatArray, scored: BoolArray, starts: IntArray, bounds: tuple[float, float]
) -> OverRequested:
    """`rewards`: of the scored requests, in order. `starts`: of the tasks among all requests."""
    worst, best = (_filled(rewards, scored, fill) for fill in bounds)
    at_worst = pass_powers(worst, starts)
    at_best = at_worst if scored.all() else pass_powers(best, starts)
    expected = np.diff(starts)
    missing = sum_by_group((~scored).astype(np.float64), starts).astype(np.int64)
    solved = solved_by_group(_filled(rewards, scored, -np.inf), starts)
    failed = expected - missing - solved
    both = (solved > 0) & (failed > 0)
    return OverRequested(
        tasks=len(expected),
        mean_reward=Range(float(worst.mean()), float(best.mean())),
        pass_at=_ranges(at_worst[0], at_best[0]),
        pass_hat=_ranges(at_worst[1], at_best[1]),
        never_solved=_share(solved + missing == 0, solved == 0),
        sometimes_solved=_share(both, both | ((missing > 0) & (expected > 1))),
        always_solved=_share(failed + missing == 0, failed == 0),
    )


def _filled(rewards: FloatArray, scored: BoolArray, fill: float) -> FloatArray:
    filled = np.full(len(scored), fill)
    filled[scored] = rewards
    return filled


def _ranges(low: Sequence[PassAtK], high: Sequence[PassAtK]) -> list[RangeAtK]:
    return [
        RangeAtK(one.k, Range(one.value, other.value), one.tasks)
        for one, other in zip(low, high, strict=True)
    ]


def _share(surely: BoolArray, possibly: BoolArray) -> Range:
    return Range(float(surely.mean()), float(possibly.mean()))
