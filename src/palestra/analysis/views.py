"""Each task's values, and the two views of a metric: over the scored rollouts, and over everything that was requested.

A rollout that was not scored has no reward, and none is made up for it. So over all requested
rollouts a metric is a range: from what it would be if every missing rollout had the worst reward
to what it would be if every one had the best (Manski 1989, "Anatomy of the Selection Problem",
the bounds without assumptions). The range is a point, and equal to the other view, when nothing
is missing. It says nothing about sampling error; intervals do.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.metrics import (
    REWARD,
    BoolArray,
    FloatArray,
    IntArray,
    expected_max_of_sorted,
    rows_by_size,
    sum_by_group,
)

_PASS_AT = re.compile(r"pass@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that every task has. `k`: of pass@k, the expected best reward among k rollouts."""

    name: str
    field: str = REWARD
    k: int | None = None

    @property
    def of_reward(self) -> bool:
        return self.field == REWARD

    def by_task(self, values: FloatArray, starts: IntArray) -> FloatArray:
        """Per group of `values` (NaN: absent); NaN for a group that has too few of them."""
        if self.k is None:
            return mean_of_present(values, starts)
        return best_of_k(values, starts, self.k)


def parse_metric(name: str, fields: Iterable[str]) -> Metric:
    """`pass@k`, or one of `fields`. Raises ConfigError with the nearest spelling."""
    pass_at = _PASS_AT.fullmatch(name)
    if pass_at:
        return Metric(name, k=int(pass_at[1]))
    known_fields = sorted(fields)
    if name not in known_fields:
        raise ConfigError(
            f"no rollout has a number {name!r}{did_you_mean(name, known_fields)}",
            hint=f"metrics: pass@k for any k, {', '.join(known_fields)}",
        )
    return Metric(name, field=name)


def task_values(frame: RunFrame, metric: Metric) -> FloatArray:
    """Per task of `frame.requests`, over its scored rollouts; NaN where there is none."""
    values = np.full(len(frame.requests.tasks), np.nan)
    column = _column(frame, metric)
    values[frame.profiled] = metric.by_task(column, frame.rollouts.starts)
    return values


def task_values_filled(frame: RunFrame, metric: Metric, missing: float) -> FloatArray:
    """As `task_values`, over all requested rollouts, as if each missing one had been `missing`."""
    requests = frame.requests
    values = np.full(len(requests), np.nan)
    values[requests.scored] = _column(frame, metric)
    return metric.by_task(np.where(np.isnan(values), missing, values), requests.starts)


def mean_of_present(values: FloatArray, starts: IntArray) -> FloatArray:
    """The mean of each group over the values that are there; NaN for a group without one."""
    absent = np.isnan(values)
    count = sum_by_group((~absent).astype(np.float64), starts)
    total = sum_by_group(np.where(absent, 0.0, values), starts)
    means = np.full(len(count), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means


def best_of_k(values: FloatArray, starts: IntArray, k: int) -> FloatArray:
    """Expected maximum of k values of each group; NaN for a group that has fewer."""
    sizes = np.diff(starts)
    best = np.full(len(sizes), np.nan)
    for size in np.unique(sizes[sizes >= k]).tolist():
        groups = np.flatnonzero(sizes == size)
        rows = np.sort(values[starts[:-1][groups][:, np.newaxis] + np.arange(size)], axis=1)
        best[groups] = expected_max_of_sorted(rows, k)
    return best


def _column(frame: RunFrame, metric: Metric) -> FloatArray:
    column = frame.rollouts.columns.values.get(metric.field)
    return np.full(len(frame.rollouts), np.nan) if column is None else column


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
    maxima = [expected_max_of_sorted(rows, k) for rows in matrices if rows.shape[1] >= k]
    values = np.concatenate(maxima)
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
        RangeAtK(low_at.k, Range(low_at.value, high_at.value), low_at.tasks)
        for low_at, high_at in zip(low, high, strict=True)
    ]


def _share(surely: BoolArray, possibly: BoolArray) -> Range:
    return Range(float(surely.mean()), float(possibly.mean()))
