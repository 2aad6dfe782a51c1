"""Computes the values of each task, and two views of a metric: over the scored rollouts, and over
all requested rollouts.

A rollout without a score has no reward, and no reward is assumed for it. So a metric over all
requested rollouts is a range: from its value if every missing rollout had the worst reward to its
value if every one had the best (Manski 1989, "Anatomy of the Selection Problem", the bounds without
assumptions). When nothing is missing, both ends equal the value over scored rollouts. The range
does not include sampling error; intervals do.
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
    SOLVED_REWARD,
    BoolArray,
    FloatArray,
    IntArray,
    expected_max_of_sorted,
    is_solved,
    rows_by_size,
    sum_by_group,
)
from palestra.schema import REWARD_COMPONENTS

_PASS_AT = re.compile(r"pass@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number computed for each task. `k`: for pass@k, the expected best reward among k rollouts;
    None for a mean of `field`.
    """

    name: str
    field: str = REWARD
    k: int | None = None

    @property
    def of_reward(self) -> bool:
        return self.field == REWARD

    @property
    def is_component(self) -> bool:
        """Whether it is the mean of a component of the reward."""
        return self.field.startswith(f"{REWARD_COMPONENTS}.")

    def by_task(self, values: FloatArray, starts: IntArray) -> FloatArray:
        """Return the metric of each group of `values` (NaN: absent); NaN for a group with too few
        values.
        """
        if self.k is None:
            return mean_of_present(values, starts)
        return best_of_k(values, starts, self.k)


def parse_metric(name: str, fields: Iterable[str]) -> Metric:
    """Parse `pass@k`, or one of `fields`. Raises ConfigError: the name is neither; the message
    suggests a similar name.
    """
    pass_at = _PASS_AT.fullmatch(name)
    if pass_at:
        return Metric(name, k=int(pass_at[1]))
    known_fields = sorted(fields)
    if name not in known_fields:
        k = name.rpartition("@")[2]
        forms = [f"pass@{k}"] if _PASS_AT.fullmatch(f"pass@{k}") and "@" in name else []
        raise ConfigError(
            f"no rollout has a numeric field {name!r}{did_you_mean(name, [*forms, *known_fields])}",
            hint=f"metrics: pass@k for any k, {', '.join(known_fields)}",
        )
    return Metric(name, field=name)


def task_values(frame: RunFrame, metric: Metric) -> FloatArray:
    """Return the metric of each task in `frame.requests`, over its scored rollouts; NaN for a task
    with too few.
    """
    values = np.full(len(frame.requests.tasks), np.nan)
    column = _column(frame, metric)
    values[frame.profiled] = metric.by_task(column, frame.rollouts.starts)
    return values


def task_values_filled(frame: RunFrame, metric: Metric, missing: float) -> FloatArray:
    """Return the metric of each task over all requested rollouts, with the value `missing` for each
    missing one.
    """
    requests = frame.requests
    values = np.full(len(requests), np.nan)
    values[requests.scored] = _column(frame, metric)
    return metric.by_task(np.where(np.isnan(values), missing, values), requests.starts)


def mean_of_present(values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the mean of each group without its NaN values; NaN for a group with only NaN."""
    absent = np.isnan(values)
    count = sum_by_group((~absent).astype(np.float64), starts)
    total = sum_by_group(np.where(absent, 0.0, values), starts)
    means = np.full(len(count), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means


def best_of_k(values: FloatArray, starts: IntArray, k: int) -> FloatArray:
    """Return the expected maximum of k values of each group; NaN for a group with fewer than k
    values.
    """
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


@dataclass(frozen=True, slots=True)
class Range:
    """The least and largest possible value of a number, depending on the scores of missing
    rollouts.
    """

    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the missing rollouts cannot change the number: both ends are equal."""
        return self.low == self.high

    def as_json(self) -> list[float]:
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class PassAtK:
    """The expected best (or worst) reward among k rollouts of a task; the mean over the tasks with
    at least k.
    """

    k: int
    value: float
    tasks: int


@dataclass(frozen=True, slots=True)
class RangeAtK:
    """The possible range of a `PassAtK`, over the tasks with at least k requested rollouts."""

    k: int
    value: Range
    tasks: int


@dataclass(frozen=True, slots=True)
class OverRequested:
    """The metrics of `GroupScores` as possible ranges over all requested rollouts and tasks."""

    tasks: int
    mean_reward: Range
    pass_at: Sequence[RangeAtK]
    pass_hat: Sequence[RangeAtK]
    never_solved: Range
    sometimes_solved: Range
    always_solved: Range


def reward_range(rewards: FloatArray) -> tuple[float, float]:
    """Return the worst and best possible reward: 0 and 1, or the observed extremes where they go
    beyond.
    """
    return float(rewards.min(initial=0.0)), float(rewards.max(initial=1.0))


def solved_by_group(rewards: FloatArray, starts: IntArray, at: float = SOLVED_REWARD) -> IntArray:
    """Return the number of rewards in each group that solve their task."""
    return sum_by_group(is_solved(rewards, at).astype(np.float64), starts).astype(np.int64)


def pass_at_ks(rewards: FloatArray, starts: IntArray) -> tuple[list[PassAtK], list[PassAtK]]:
    """Return the expected maximum and minimum of k rewards, for k = 1, 2, 4, … and the size of the
    largest group.

    For 0/1 rewards these are the probabilities that at least one of k is solved (pass@k) and that
    all are (pass^k).
    """
    sizes = np.diff(starts)
    matrices = [np.sort(rows, axis=1) for _, rows in rows_by_size(rewards, starts)]
    largest = int(sizes.max())
    ks = sorted({*(2**power for power in range(largest.bit_length())), largest})
    best = [_at_k(matrices, k) for k in ks]
    # the worst of k is the best of k with all signs turned, and then rows ascend backwards
    turned = [0.0 - rows[:, ::-1] for rows in matrices]
    worst = [_at_k(turned, k) for k in ks]
    return best, [PassAtK(at.k, 0.0 - at.value, at.tasks) for at in worst]


def _at_k(matrices: Sequence[FloatArray], k: int) -> PassAtK:
    maxima = [expected_max_of_sorted(rows, k) for rows in matrices if rows.shape[1] >= k]
    values = np.concatenate(maxima)
    return PassAtK(k, float(values.mean()), len(values))


def over_requested(
    rewards: FloatArray, scored: BoolArray, starts: IntArray, bounds: tuple[float, float]
) -> OverRequested:
    """Return the possible ranges of the metrics over all requested rollouts.

    `rewards`: the rewards of the scored requests, in order. `scored`: whether each request was
    scored. `starts`: the first request of each task, among all requests. `bounds`: the worst and
    best reward.
    """
    worst, best = (_filled(rewards, scored, fill) for fill in bounds)
    at_worst = pass_at_ks(worst, starts)
    at_best = at_worst if scored.all() else pass_at_ks(best, starts)
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


def with_absent(
    known_ranges: OverRequested, *, present: int, absent: int, bounds: tuple[float, float]
) -> OverRequested:
    """Return the ranges over `absent` more requested rollouts whose tasks are not known.

    `known_ranges`: those over the `present` requests. What depends on tasks can then be anything.
    """
    low, high = bounds
    mean, requested = known_ranges.mean_reward, present + absent
    anything = Range(low, high)
    return OverRequested(
        tasks=known_ranges.tasks,
        mean_reward=Range(
            (mean.low * present + low * absent) / requested,
            (mean.high * present + high * absent) / requested,
        ),
        pass_at=[RangeAtK(at.k, anything, at.tasks) for at in known_ranges.pass_at],
        pass_hat=[RangeAtK(at.k, anything, at.tasks) for at in known_ranges.pass_hat],
        never_solved=Range(0.0, 1.0),
        sometimes_solved=Range(0.0, 1.0),
        always_solved=Range(0.0, 1.0),
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
