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

from palestra.profiling.columns import BoolArray, FloatArray, IntArray
from palestra.profiling.passk import expected_max_of_sorted
from palestra.profiling.statistics import sum_by_group

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


def pass_at_powers(rewards: FloatArray, starts: IntArray) -> list[PassAtK]:
    """The expected maximum of k rewards, for k = 1, 2, 4, … up to the largest group."""
    sizes = np.diff(starts)
    matrices = [_sorted_rows(rewards, starts, size) for size in np.unique(sizes).tolist()]
    found, k = [], 1
    while k <= int(sizes.max()):
        held = [expected_max_of_sorted(rows, k) for rows in matrices if rows.shape[1] >= k]
        values = np.concatenate(held)
        found.append(PassAtK(k, float(values.mean()), len(values)))
        k *= 2
    return found


def pass_hat_powers(rewards: FloatArray, starts: IntArray) -> list[PassAtK]:
    """The expected minimum of k rewards; for 0/1 rewards the chance that all k are solved."""
    return [PassAtK(at.k, 0.0 - at.value, at.tasks) for at in pass_at_powers(0.0 - rewards, starts)]


def over_requested(
    rewards: FloatArray, scored: BoolArray, starts: IntArray, bounds: tuple[float, float]
) -> OverRequested:
    """`rewards`: of the scored requests, in order. `starts`: of the tasks among all requests."""
    worst, best = (_filled(rewards, scored, fill) for fill in bounds)
    expected = np.diff(starts)
    missing = sum_by_group((~scored).astype(np.float64), starts).astype(np.int64)
    solved = solved_by_group(_filled(rewards, scored, -np.inf), starts)
    failed = expected - missing - solved
    both = (solved > 0) & (failed > 0)
    return OverRequested(
        tasks=len(expected),
        mean_reward=Range(float(worst.mean()), float(best.mean())),
        pass_at=_ranges(pass_at_powers(worst, starts), pass_at_powers(best, starts)),
        pass_hat=_ranges(pass_hat_powers(worst, starts), pass_hat_powers(best, starts)),
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


def _sorted_rows(rewards: FloatArray, starts: IntArray, size: int) -> FloatArray:
    """One ascending row of rewards for each group that has `size` of them."""
    first = starts[:-1][np.diff(starts) == size]
    return np.sort(rewards[first[:, np.newaxis] + np.arange(size)], axis=1)
